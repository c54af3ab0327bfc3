/** What waits for what, with datastores whose members dump and restore as they are told. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { appType, ownedBy } from '../resources.ts';
import { datastoreBackups as routes } from './api.ts';
import { addDatastore, startDatastoreWorld } from './datastore-fixture.ts';
import type { DatastoreWorld } from './datastore-fixture.ts';
import { isAskedFor, waitsFor } from './lanes.ts';
import { backupPlanType, datastoreBackupType } from './types.ts';
import type { PendingRestore } from './types.ts';

const settled = { deadlineMs: 60_000, intervalMs: 10 };
const minuteMs = 60_000;

/** As the schedule has one made. */
async function scheduled({ world }: DatastoreWorld, appId: string): Promise<string> {
  const status = { state: 'queued', attempt: 0, nextMs: 0 } as const;
  const input = { owner: ownedBy(appId), spec: { by: { is: 'schedule' as const } }, status };
  return (await world.deps.resources.create(datastoreBackupType, input)).id;
}

const recordOf = ({ world }: DatastoreWorld, id: string) => world.deps.resources.get(datastoreBackupType, id);
const planOf = ({ world }: DatastoreWorld, id: string) =>
  waitFor(() => world.deps.resources.find(backupPlanType, id), { what: 'a plan', ...settled });

async function backedUp(at: DatastoreWorld): Promise<string> {
  await planOf(at, at.appId);
  const { id } = await at.world.client.call(routes.run, { params: at.params });
  const isMade = async () => (await recordOf(at, id)).status.state === 'complete';
  await waitFor(isMade, { what: 'a backup', ...settled });
  return id;
}

const restoreOf = async ({ world, params }: DatastoreWorld) =>
  (await world.client.call(routes.list, { params })).restore;

async function restored(at: DatastoreWorld, backup: string): Promise<void> {
  await at.world.client.call(routes.restore, { params: at.params, body: { backup } });
  await waitFor(async () => (await restoreOf(at))?.state === 'complete', { what: 'the restore', ...settled });
}

async function running(at: DatastoreWorld, ...ids: string[]): Promise<void> {
  const areRunning = async () => {
    const all = await Promise.all(ids.map((id) => recordOf(at, id)));
    return all.every(({ status }) => status.state === 'running');
  };
  await waitFor(areRunning, { what: 'the dumps to be under way', ...settled });
}

test('a restore, and a backup that somebody asks for, wait for no dumps of others that nobody asked for', async () => {
  await using at = await startDatastoreWorld({ backsUp: true });
  const first = await backedUp(at);
  const others: string[] = [];
  for (const app of ['one', 'two', 'three', 'four', 'five']) {
    await at.world.deployApp(app, { web: {} });
    const { appId } = await addDatastore(at.world, app);
    await planOf(at, appId);
    others.push(appId);
  }
  const [last = '', ...busy] = others.toReversed();
  for (const _ of busy) at.database.misbehaviours.push({ is: 'hangs', afterBytes: 10 });
  const dumps = await Promise.all(busy.map((appId) => scheduled(at, appId)));
  await running(at, ...dumps);
  const waiting = await scheduled(at, last);
  const own = await scheduled(at, at.appId);
  await restored(at, first);
  // It takes the place of one that waits.
  const asked = await at.world.client.call(routes.run, { params: at.params });
  assert.equal(asked.id, own);
  await waitFor(async () => (await recordOf(at, own)).status.state === 'complete', {
    what: 'what was asked for',
    ...settled,
  });
  assert.equal((await recordOf(at, waiting)).status.state, 'queued');
  await running(at, ...dumps);

  // A datastore that is made meanwhile is looked after at once.
  await at.world.deployApp('six', { web: {} });
  await planOf(at, (await addDatastore(at.world, 'six')).appId);
});

test('a dump of its own that nobody asked for gives way to a restore, and is made after it', async () => {
  await using at = await startDatastoreWorld({ backsUp: true });
  const first = await backedUp(at);
  at.database.misbehaviours.push({ is: 'hangs', afterBytes: 10 });
  const dump = await scheduled(at, at.appId);
  await running(at, dump);
  const content = at.database.content;
  at.database.content = Buffer.from('spoilt');
  await restored(at, first);
  assert.deepEqual(at.database.content, content);
  await waitFor(async () => (await recordOf(at, dump)).status.state === 'complete', { what: 'the dump', ...settled });
  const { status } = await recordOf(at, dump);
  assert.deepEqual([status.attempt, status.error, status.dumpBytes], [1, undefined, content.length]);
  const tasks = at.database.runs.map((run) => run.split(' ')[0]);
  assert.deepEqual(tasks, ['dump', 'dump', 'restore', 'dump']);
});

test('a dump that somebody asked for is waited for, and that is said; what is put back is not deleted meanwhile', async () => {
  await using at = await startDatastoreWorld({ backsUp: true });
  const first = await backedUp(at);
  const { client } = at.world;
  const blocked = Promise.withResolvers<void>();
  at.database.onRun = () => blocked.promise;
  const { id } = await client.call(routes.run, { params: at.params });
  await running(at, id);
  await client.call(routes.schedule, { params: at.params, body: { schedule: '0 3 * * *', keep: 1 } });
  const restoring = restored(at, first);
  const isSaid = async () => (await restoreOf(at))?.waitsFor;
  assert.equal(
    await waitFor(isSaid, { what: 'what it waits for', ...settled }),
    `its backup ${id} (root) to end, which somebody asked for`,
  );
  const deleting = client.call(routes.remove, { params: { ...at.params, backup: first } });
  await assert.rejects(deleting, { code: 'conflict', message: /is being put back/ });
  blocked.resolve();
  // Of those that people asked for one is kept.
  await restoring;
  assert.deepEqual(
    (await at.records()).map(({ status }) => status.state),
    ['complete', 'complete'],
  );
});

test('a restore waits for what is deployed of its datastore, and not for ever', async () => {
  await using at = await startDatastoreWorld();
  await at.step(Date.now());
  const { client, deps } = at.world;
  const { id } = await client.call(routes.run, { params: at.params });
  await at.step(Date.now());
  await deps.resources.updateStatus(appType, at.appId, ({ status }) => ({ ...status, deploymentId: 'd1' }));
  await client.call(routes.restore, { params: at.params, body: { backup: id } });
  // What is made by itself at night is made beside it.
  const restores = () => at.database.runs.filter((run) => run.startsWith('restore')).length;
  const again = await at.step(Date.now());
  assert.ok(again !== undefined && again.againInMs < minuteMs);
  assert.equal(restores(), 0);
  assert.equal((await restoreOf(at))?.waitsFor, 'the deployment of shop-postgres to end');
  await at.step(Date.now() + 31 * minuteMs);
  assert.deepEqual([(await restoreOf(at))?.state, restores()], ['complete', 1]);
});

test('what keeps a restore is said in words', async () => {
  await using at = await startDatastoreWorld();
  await at.step(Date.now());
  const plan = await at.plan();
  const app = await at.world.deps.resources.get(appType, at.appId);
  const wanted: PendingRestore = { state: 'wanted', by: 'ann', wantedMs: 0, attempt: 0, nextMs: 0 };
  const said = (restore: Partial<PendingRestore>, more: object = {}, nowMs = 0) =>
    waitsFor(
      {
        app,
        plan: { ...plan, status: { handledMs: 0, restore: { ...wanted, ...restore } } },
        records: [],
        restoring: 0,
        ...more,
      },
      nowMs,
    );
  assert.equal(said({}), undefined);
  assert.equal(said({ state: 'running' }, { restoring: 4 }), undefined);
  assert.match(said({}, { restoring: 4 }) ?? '', /^its turn: 4 other databases/);
  assert.match(said({ error: 'no member', nextMs: 1 }) ?? '', /^its next try: no member/);
  assert.match(said({}, {}, 2 * minuteMs) ?? '', /flynn -a controller ps/);
  const record = await recordOf(at, await scheduled(at, at.appId));
  const made = { ...record, status: { ...record.status, state: 'running' as const } };
  assert.equal(said({}, { records: [made] }), `its backup ${made.id} (schedule) to give way`);
  assert.ok(!isAskedFor(made) && isAskedFor({ ...made, status: { ...made.status, isAsked: true } }));
});
