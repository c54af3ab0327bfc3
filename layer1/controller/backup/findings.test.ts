import assert from 'node:assert/strict';
import { test } from 'node:test';
import { backupFindings } from './findings.ts';

const spec = { schedule: '0 3 * * *', to: { host: 'h', directory: '/b' }, keep: 2 };
const handledMs = Date.UTC(2027, 0, 1, 3);
const dayMs = 24 * 3_600_000;
const lastSuccess = { at: '2027-01-01T03:00:09.000Z', file: 'f', sizeBytes: 1 };

test('backups that fail, or that nobody makes, are found, with what is lost since when', () => {
  assert.deepEqual(backupFindings({ spec, status: { handledMs, lastSuccess } }, handledMs + dayMs), []);
  const failure = { since: '2027-01-02T03:00:00.000Z', count: 3, message: 'the disk is full' };
  const [failing] = backupFindings({ spec, status: { handledMs, lastSuccess, failure } }, handledMs);
  assert.equal(failing?.severity, 'critical');
  assert.equal(failing?.since, failure.since);
  assert.match(`${failing?.what} ${failing?.why}`, /3 in a row failed: the disk is full .*2027-01-01T03:00:09/);
  const [late] = backupFindings({ spec, status: { handledMs } }, handledMs + dayMs + 3 * 3_600_000);
  assert.equal(late?.since, '2027-01-02T03:00:00.000Z');
  assert.match(late?.why ?? '', /there is none yet/);
  // What was due before a restore began is late as long after that.
  const since = handledMs + 40 * dayMs;
  const restoring = (ms: number) =>
    backupFindings({ spec, status: { handledMs } }, since + ms, new Date(since).toISOString());
  assert.deepEqual(restoring(3_600_000), []);
  const [waiting] = restoring(2 * 3_600_000);
  assert.deepEqual([waiting?.severity, waiting?.since], ['critical', new Date(since).toISOString()]);
  assert.match(
    `${waiting?.what} ${waiting?.remedy}`,
    /restored onto this cluster .*--from-backup .* with the same file/,
  );
  // One under way has until it is tried again, and then some.
  const pending = { tickMs: handledMs, attempt: 1, nextMs: handledMs + 60_000 };
  assert.deepEqual(backupFindings({ spec, status: { handledMs, pending } }, handledMs + 3_600_000), []);
});
