/** What is said of histories of datastores, and when. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { historyFindings } from './findings.ts';
import { archive, copy, minuteMs, piece, startMs, status } from './history-fixture.ts';
import type { HistoryStatus } from './types.ts';

const spec = { datastore: 'shop-postgres' };
const said = (more: Partial<HistoryStatus>, bases = [copy(0)], minutes = 16) =>
  historyFindings({ spec, status: status([], more) }, archive(bases), startMs + minutes * minuteMs).map(
    ({ severity, what }) => `${severity}: ${what}`,
  );

test('nothing is said while all is well, nor of what fails for a moment', () => {
  assert.deepEqual(said({}), []);
  const failure = { sinceMs: startMs, count: 3, message: 'no member runs' };
  assert.deepEqual(said({ failure }, [copy(0)], 14), []);
  assert.deepEqual(said({ failure }), ['critical: its log is not collected: no member runs']);
});

test('a copy that cannot be made is critical where there is none; a gap is told for a day', () => {
  const base = { run: 1, attempt: 3, startedMs: startMs, start: { timeline: 1, lsn: 0 }, nextMs: 0 };
  const failing = { base: { ...base, error: 'checksum error', failingSinceMs: startMs } };
  assert.deepEqual(said(failing), ['warning: no copy of it can be made for its history: checksum error']);
  assert.deepEqual(said(failing, []), ['critical: no copy of it can be made for its history: checksum error']);
  assert.deepEqual(said({ base: { ...base, attempt: 1 } }, []), []);
  const gap = { atMs: startMs, reason: 'it is gone' };
  assert.deepEqual(said({ gap }), ['warning: its history has a gap: it is gone']);
  assert.deepEqual(said({ gap }, [copy(0)], 1_441), []);
});

test('whatever the reason, what is not collected is told; so are pieces that cannot be merged, and much that is kept', () => {
  assert.deepEqual(said({ untilMs: startMs + 2 * minuteMs }), []);
  assert.deepEqual(said({ untilMs: startMs }), ['critical: its log is not collected: nobody says why']);
  const unmerged = { sinceMs: startMs, message: 'sha256:5 cannot be read' };
  assert.deepEqual(said({ unmerged }), ['warning: its log cannot be merged: sha256:5 cannot be read']);
  const GiB = 1024 ** 3;
  const large = (recentBytes: number) =>
    said({ recent: [piece(0, { blobBytes: recentBytes })] }, [copy(0, { blobBytes: GiB })]);
  assert.deepEqual(large(8 * GiB), []);
  assert.deepEqual(large(11 * GiB), ['warning: its history takes 12 GiB, and a copy of it 1.0 GiB']);
});
