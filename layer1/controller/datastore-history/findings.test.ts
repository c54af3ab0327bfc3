/** What is said of histories of datastores, and when. */
import { waitFor } from '@flynn/kit/retry';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startDatastoreWorld } from '../datastore-backups/datastore-fixture.ts';
import { formations } from '../api.ts';
import { appType } from '../resources.ts';
import { datastoreHistoryCheck, historyFindings } from './findings.ts';
import { archive, copy, minuteMs, piece, startMs, status } from './history-fixture.ts';
import { Story } from './story-fixture.ts';
import { type HistoryStatus, historyType } from './types.ts';

const spec = { datastore: 'shop-postgres' };
const createdAt = new Date(startMs).toISOString();
const said = (
  more: Partial<HistoryStatus>,
  bases = [copy(0)],
  minutes = 16,
  { isWanted = true, runsSinceMs = 0 } = {},
) => {
  const now = startMs + minutes * minuteMs;
  const found = historyFindings({ spec, createdAt, status: status([], more) }, archive(bases), {
    now,
    isWanted,
    runsSinceMs,
  });
  return found.map(({ severity, what }) => `${severity}: ${what}`);
};

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
  assert.deepEqual(said({ gap, untilMs: startMs + 1_441 * minuteMs }, [copy(0)], 1_441), []);
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

test('each thing that is wrong with one history is told apart', () => {
  const GiB = 1024 ** 3;
  const copies = [copy(0, { blobBytes: GiB, isLost: true })];
  const own = { base: { run: 1, attempt: 3, startedMs: startMs, start: { timeline: 1, lsn: 0 }, nextMs: 0 } };
  const now = startMs + 600 * minuteMs;
  const wrong: Partial<HistoryStatus> = {
    base: { ...own.base, error: 'checksum error', failingSinceMs: startMs },
    unmerged: { sinceMs: startMs, message: 'sha256:5 cannot be read' },
    gap: { atMs: startMs, reason: 'it is gone' },
    recent: [piece(0, { blobBytes: 11 * GiB })],
  };
  const facts = { now, isWanted: true, runsSinceMs: 0 };
  const matters = (more: Partial<HistoryStatus>) =>
    historyFindings({ spec, createdAt, status: status([], { ...wrong, ...more }) }, archive(copies), facts).map(
      ({ matter }) => matter,
    );
  assert.deepEqual(matters({ untilMs: now }), ['copy', 'no moment', 'merge', 'missing', 'large', 'gap']);
  assert.deepEqual(matters({ untilMs: startMs })[0], 'log');
});

test('gaps that come faster than copies are critical: no moment can be gone back to', () => {
  const now = { gap: { atMs: startMs + 130 * minuteMs, reason: 'it is gone' }, run: 9 };
  const told = (minutes: number, bases = [copy(0)]) =>
    said(
      { ...now, ended: [{ run: 1, untilMs: startMs + 20 * minuteMs }], untilMs: startMs + minutes * minuteMs },
      bases,
      minutes,
    );
  assert.deepEqual(told(139), ['warning: its history has a gap: it is gone']);
  const critical = (time: string) =>
    `critical: no moment since ${time} can be gone back to: gaps come faster than copies are made`;
  assert.ok(told(140).includes(critical('2027-01-01T00:20:00.000Z')));
  assert.ok(told(120, []).includes(critical(createdAt)));
  assert.ok(!told(140, [copy(0), copy(131, { run: 9 })]).some((one) => one.startsWith('critical')));
});

test('a first copy that is not there, or that its log does not go on from, is critical after two hours', () => {
  const begun = (minutes: number, more: Partial<HistoryStatus> = {}, bases = [copy(60)]) =>
    said({ begunMs: startMs + 60 * minuteMs, untilMs: startMs + minutes * minuteMs, ...more }, bases, minutes);
  const critical = `critical: no moment since ${createdAt} can be gone back to: no copy is there that its log goes on from`;
  assert.deepEqual(begun(180), []);
  assert.deepEqual(begun(179, {}, []), []);
  assert.deepEqual(begun(180, {}, []), [critical]);
  assert.deepEqual(begun(180, { recent: [piece(60), piece(61)] }), []);
  assert.deepEqual(begun(180, { recent: [piece(61)] }), [critical]);
  assert.deepEqual(said({ at: undefined }, [], 180), []);
  const halted = begun(300, { untilMs: startMs + 120 * minuteMs, recent: [piece(60), piece(61)] });
  assert.deepEqual(
    halted,
    ['critical: its log is not collected: nobody says why'],
    'it goes on from it, and stands still',
  );
});

test('what is scaled up again has the time that its members need', () => {
  const since = (minutes: number) => ({ runsSinceMs: startMs + minutes * minuteMs });
  assert.deepEqual(said({ untilMs: startMs }, [copy(0)], 60, since(50)), []);
  assert.deepEqual(said({ untilMs: startMs }, [copy(0)], 65, since(50)), [
    'critical: its log is not collected: nobody says why',
  ]);
});

test('parts that are missing are told, before they are given up; as critical where no copy is left', () => {
  const missing = (digest: string) => ({
    looked: { atMs: startMs, nextMs: startMs, missing: [{ digest, sinceMs: startMs, seenMs: startMs, times: 3 }] },
  });
  assert.deepEqual(said(missing('sha256:5'), [copy(0)], 14), []);
  assert.deepEqual(said(missing('sha256:5')), [
    'warning: of its history 1 of its parts, like sha256:5, cannot be read',
  ]);
  assert.deepEqual(said(missing('sha256:copy-0')), [
    'critical: of its history 1 of its parts, like sha256:copy-0, cannot be read',
  ]);
  assert.deepEqual(said({}, [copy(0, { isLost: true })]), ['critical: of its history its copies cannot be read']);
  assert.deepEqual(said({}, [copy(0, { isLost: true }), copy(9)]), []);
});

test('of one that nobody wants to run nothing is collected, and nothing is told; of one that runs without a history it is', async () => {
  await using at = await startDatastoreWorld();
  const { world } = at;
  const story = new Story(at);
  await story.begin();
  const find = () => datastoreHistoryCheck({ ...world.deps, now: () => story.nowMs }).find(AbortSignal.timeout(60_000));
  at.database.history.failures.push('no primary');
  await story.collect();
  assert.notEqual((await story.view()).failure, undefined);
  const { status: app } = await world.deps.resources.get(appType, at.appId);
  const scale = (postgres: number) =>
    world.client.call(formations.put, {
      params: { app: 'shop-postgres', release: app.releaseId ?? '' },
      body: { processes: { postgres } },
    });
  await scale(0);
  const runs = at.database.history.runs.length;
  await story.collect(20);
  await story.copy();
  assert.equal(at.database.history.runs.length, runs);
  assert.deepEqual([(await story.view()).failure, await find()], [undefined, []]);
  await scale(2);
  assert.deepEqual(
    (await find()).map(({ what }) => what),
    ['its log is not collected: nobody says why'],
  );

  await world.deps.resources.delete(historyType, at.appId);
  const what = async () => (await find()).map((one) => one.what);
  story.nowMs = Date.now();
  assert.deepEqual(await what(), []);
  story.nowMs += 20 * minuteMs;
  await waitFor(async () => (await what()).length > 0, {
    what: 'its members to run',
    deadlineMs: 30_000,
    intervalMs: 5,
  });
  assert.deepEqual(await what(), ['it has no history yet, and its members run']);
});
