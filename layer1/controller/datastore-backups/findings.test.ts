/** What is said of backups of datastores, and when. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Metrics } from '@flynn/kit/metrics';
import { waitFor } from '@flynn/kit/retry';
import { startDatastoreWorld } from './datastore-fixture.ts';
import { backupFigures } from './figures.ts';
import { datastoreFindings } from './findings.ts';
import { defaultSchedule, newestComplete, nextOrder, nextStep, superfluous } from './plan.ts';
import type { BackupPlan, DatastoreBackupResource } from './types.ts';

const hourMs = 3_600_000;
const start = Date.UTC(2027, 0, 1);
const iso = (ms: number): string => new Date(ms).toISOString();

function planOf(status: Partial<BackupPlan['status']> = {}): Parameters<typeof datastoreFindings>[0] {
  const spec = { datastore: 'shop-postgres', schedule: '0 3 * * *', keep: 7, secret: 's' };
  return { spec, status: { handledMs: start, ...status }, command: 'pg' };
}

function record(
  id: string,
  status: Partial<DatastoreBackupResource['status']>,
  by: DatastoreBackupResource['spec']['by'] = { is: 'schedule' },
): DatastoreBackupResource {
  return {
    type: 'datastore-backup',
    id,
    uid: id,
    revision: 1,
    generation: 1,
    createdAt: iso(start),
    updatedAt: iso(start),
    labels: {},
    finalizers: [],
    waitingFor: {},
    conditions: [],
    spec: { by },
    status: { state: 'complete', attempt: 1, nextMs: 0, ...status },
  };
}

const whatOf = (...given: Parameters<typeof datastoreFindings>) => datastoreFindings(...given).map(({ what }) => what);

test('nothing is said while all is well; what failed is told at once, and what is due a day later', () => {
  const good = record('1', { endedAt: iso(start) });
  assert.deepEqual(whatOf(planOf(), [good], start + 3 * hourMs), []);
  assert.deepEqual(whatOf(planOf(), [], start + 26 * hourMs), []);
  const [due] = datastoreFindings(planOf(), [], start + 27 * hourMs);
  assert.deepEqual([due?.severity, due?.since], ['critical', iso(start + 3 * hourMs)]);
  assert.match(due?.why ?? '', /there is no backup yet/);
  const bad = record('2', { state: 'retrying', error: 'no such table' });
  const [failed] = datastoreFindings(planOf(), [good, bad], start + hourMs);
  assert.deepEqual([failed?.what, failed?.severity], ['its backup failed: no such table', 'critical']);
  assert.match(failed?.why ?? '', new RegExp(`the last one is of ${iso(start)}`));
  assert.deepEqual(whatOf(planOf(), [good, bad, record('3', {})], start + hourMs), []);
  const { schedule: _, ...unscheduled } = planOf().spec;
  assert.deepEqual(
    whatOf({ spec: unscheduled, status: { handledMs: 0 }, command: 'pg' }, [], start + 1_000 * hourMs),
    [],
  );
  const stuck = record('4', { state: 'running' });
  assert.equal(
    whatOf({ spec: unscheduled, status: { handledMs: 0 }, command: 'pg' }, [stuck], start + 25 * hourMs).length,
    1,
  );
});

test('of a cluster that came back nothing else is done before what was in it is there, or done without', () => {
  const restore = { isOwed: true, wantedMs: start, attempt: 0, nextMs: start } as const;
  const open = record('1', { state: 'queued', nextMs: 0 });
  const at = (state: 'waiting' | 'wanted' | 'failed', records: DatastoreBackupResource[] = []) =>
    nextStep(planOf({ restore: { ...restore, state } }), records, start + 4 * hourMs).do;
  assert.deepEqual([at('waiting', [open]), at('wanted', [open]), at('failed')], ['wait', 'restore', 'wait']);
  assert.deepEqual([at('failed', [open]), nextStep(planOf(), [], start + 4 * hourMs).do], ['back up', 'back up']);
  const failed = { ...restore, state: 'failed', error: 'no room', endedAt: iso(start) } as const;
  assert.match(whatOf(planOf({ restore: failed }), [], start)[0] ?? '', /could not be put back: no room/);
  assert.equal(whatOf(planOf({ restore: { ...failed, by: 'ann' } }), [], start).length, 1);
  assert.deepEqual(whatOf(planOf({ restore: { ...failed, isOwed: false, by: 'ann' } }), [], start), []);
  const waiting = { ...restore, state: 'waiting' } as const;
  assert.deepEqual(whatOf(planOf({ restore: waiting }), [], start + 100 * hourMs), []);
});

test('a clock that was far ahead holds nothing up', () => {
  const ahead = start + 365 * 24 * hourMs;
  assert.equal(nextStep(planOf({ handledMs: ahead }), [], start).do, 'back up');
  assert.equal(nextStep(planOf(), [record('1', { state: 'retrying', nextMs: ahead })], start).do, 'back up');
});

test('default schedules are spread over the night, and always the same for one datastore', () => {
  const all = Array.from({ length: 200 }, (_, index) => defaultSchedule(`app${index}`));
  assert.ok(new Set(all).size > 100);
  for (const schedule of all) assert.match(schedule, /^[1-5]?\d [1-4] \* \* \*$/);
  assert.equal(defaultSchedule('a'), defaultSchedule('a'));
});

test('of each kind the newest are kept, of those for backups of the cluster one, and of failures some', () => {
  const person = { is: 'person', name: 'ann' } as const;
  const records = [
    ...Array.from({ length: 9 }, (_, index) => record(`1${index}`, {})),
    ...Array.from({ length: 3 }, (_, index) => record(`2${index}`, {}, { is: 'cluster backup' })),
    ...Array.from({ length: 3 }, (_, index) => record(`3${index}`, {}, person)),
    ...Array.from({ length: 22 }, (_, index) => record(`4${index + 10}`, { state: 'failed', error: 'x' })),
    record('5', { state: 'running' }),
  ];
  const gone = superfluous(records, 7)
    .map(({ id }) => id)
    .toSorted();
  assert.deepEqual(gone, ['10', '11', '20', '21', '410', '411']);
});

test('what began later is newer, whatever the clock said of it: a dump of a clock that was ahead takes no other one’s place', () => {
  const by = { is: 'cluster backup' } as const;
  const month = 30 * 24 * hourMs;
  const ahead = { ...record('20270131T000000Z-aaaa', {}, by), createdAt: iso(start + month) };
  const first = nextOrder([ahead], start);
  assert.ok(first > start + month);
  const fresh = record('20270101T000000Z-bbbb', { orderMs: first }, by);
  assert.equal(newestComplete([fresh, ahead])?.id, fresh.id);
  assert.deepEqual(superfluous([ahead, fresh], 7), [ahead]);
  const later = record('20270101T000001Z-aaaa', { orderMs: nextOrder([ahead, fresh], start + 1_000) }, by);
  assert.deepEqual(superfluous([ahead, fresh, later], 7), [fresh, ahead]);
  assert.equal(nextOrder([], start), start);
});

test('figures tell when the last one ended, how large it was, and how many failed since', async () => {
  await using at = await startDatastoreWorld();
  const metrics = new Metrics();
  await using _figures = await backupFigures(at.world.deps.resources, metrics);
  await at.step(Date.now());
  await at.step(Date.now() + 48 * hourMs);
  const bytes = 'flynn_cluster_datastore_backup_bytes{datastore="shop-postgres"} 200000';
  await waitFor(async () => (await metrics.text()).includes(bytes), {
    what: 'the figure',
    deadlineMs: 30_000,
    intervalMs: 5,
  });
  const lines = (await metrics.text()).split('\n');
  assert.ok(lines.some((line) => /backup_seconds\{datastore="shop-postgres"\} \d{10}/.test(line)));
  assert.ok(lines.includes('flynn_cluster_datastore_backup_failures{datastore="shop-postgres"} 0'));
});
