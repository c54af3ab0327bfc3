/** Backups that are cancelled, and restores that are withdrawn: while they wait, while they run, and as they begin. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { resourceKey } from '@flynn/resource/keys';
import { beforeWrite } from '../testing/race-fixture.ts';
import { datastoreBackups as routes } from './api.ts';
import { startDatastoreWorld } from './datastore-fixture.ts';
import type { DatastoreWorld } from './datastore-fixture.ts';
import { backupPlanType, datastoreBackupType } from './types.ts';
import type { PendingRestore } from './types.ts';

const settled = { deadlineMs: 60_000, intervalMs: 10 };

const backUp = ({ world, params }: DatastoreWorld) => world.client.call(routes.run, { params });
const cancel = ({ world, params }: DatastoreWorld, backup: string) =>
  world.client.call(routes.cancel, { params: { ...params, backup } });
const restore = ({ world, params }: DatastoreWorld, backup: string) =>
  world.client.call(routes.restore, { params, body: { backup } });
const withdraw = ({ world, params }: DatastoreWorld) => world.client.call(routes.cancelRestore, { params });
const listed = ({ world, params }: DatastoreWorld) => world.client.call(routes.list, { params });

async function madeBackup(at: DatastoreWorld): Promise<string> {
  await at.step(Date.now());
  const { id } = await backUp(at);
  await at.step(Date.now());
  assert.equal((await listed(at)).backups[0]?.state, 'complete');
  return id;
}

async function become({ world, appId }: DatastoreWorld, change: Partial<PendingRestore>): Promise<void> {
  await world.deps.resources.updateStatus(backupPlanType, appId, ({ status }) => {
    assert.ok(status.restore !== undefined);
    return { ...status, restore: { ...status.restore, ...change } };
  });
}

/** As another process does it: what a request writes waits for what it is writing already. */
async function rewrite({ world: { store } }: DatastoreWorld, key: string, change: (status: object) => object) {
  const record = JSON.parse((await store.get(key))?.value ?? '');
  const value = JSON.stringify({ ...record, status: change(record.status) });
  await store.transact({ then: [{ put: key, value }] });
}

test('a dump that is under way is ended within seconds, and the restore that waited for it begins', async () => {
  await using at = await startDatastoreWorld({ backsUp: true });
  const { resources } = at.world.deps;
  await waitFor(() => resources.find(backupPlanType, at.appId), { what: 'a plan', ...settled });
  const isThrough = async (id: string) => (await resources.get(datastoreBackupType, id)).status.state === 'complete';
  const first = await backUp(at);
  await waitFor(() => isThrough(first.id), { what: 'the first', ...settled });
  at.database.misbehaviours.push({ is: 'hangs', afterBytes: 10 });
  const hanging = await backUp(at);
  await waitFor(() => at.database.runs.length === 2, { what: 'the second', ...settled });
  const { content } = at.database;
  at.database.content = Buffer.from('spoilt');
  await restore(at, first.id);
  await waitFor(async () => (await listed(at)).restore?.waitsFor, { what: 'the restore to wait', ...settled });
  await cancel(at, hanging.id);
  await waitFor(async () => (await listed(at)).restore?.state === 'complete', { what: 'the restore', ...settled });
  assert.deepEqual(at.database.content, content);
  assert.deepEqual(
    (await listed(at)).backups.map(({ id }) => id),
    [first.id],
  );
  assert.equal((await listed(at)).failure, undefined);
});

test('one that waits does not begin once it was cancelled, also in the moment in which it begins; what has ended is refused', async () => {
  await using at = await startDatastoreWorld();
  const first = await madeBackup(at);
  const runs = at.database.runs.length;
  const { id } = await backUp(at);
  await cancel(at, id);
  await at.step(Date.now());
  const other = await backUp(at);
  beforeWrite(at.world.store, resourceKey(datastoreBackupType.name, other.id), () => cancel(at, other.id));
  await at.step(Date.now());
  assert.equal(at.database.runs.length, runs);
  assert.deepEqual(
    (await listed(at)).backups.map((one) => one.id),
    [first],
  );
  await assert.rejects(cancel(at, first), { code: 'conflict', message: /has ended, it is complete/ });
  await assert.rejects(cancel(at, other.id), { code: 'not_found' });
  // One that ends in the moment in which it is cancelled has ended.
  const last = await backUp(at);
  const key = resourceKey(datastoreBackupType.name, last.id);
  beforeWrite(at.world.store, key, () => rewrite(at, key, (status) => ({ ...status, state: 'complete' })));
  await assert.rejects(cancel(at, last.id), { code: 'conflict', message: /has ended, it is complete/ });
});

test('what somebody asks for in the moment in which it begins is theirs; what has begun by then is not', async () => {
  await using at = await startDatastoreWorld();
  const { resources } = at.world.deps;
  await at.step(Date.now());
  const scheduled = async () => {
    const status = { state: 'queued', attempt: 0, nextMs: 0 } as const;
    const owner = { type: 'app', id: at.appId };
    return (await resources.create(datastoreBackupType, { owner, spec: { by: { is: 'schedule' } }, status })).id;
  };
  const waiting = await scheduled();
  const key = resourceKey(datastoreBackupType.name, waiting);
  beforeWrite(at.world.store, key, async () => assert.equal((await backUp(at)).id, waiting));
  await assert.rejects(at.step(Date.now()), { code: 'conflict' });
  assert.deepEqual([(await resources.get(datastoreBackupType, waiting)).status.isAsked, at.database.runs], [true, []]);
  await at.step(Date.now());
  const { status } = await resources.get(datastoreBackupType, waiting);
  assert.deepEqual([status.state, at.database.runs.length], ['complete', 1]);

  const begun = await scheduled();
  const other = resourceKey(datastoreBackupType.name, begun);
  beforeWrite(at.world.store, other, () => rewrite(at, other, (one) => ({ ...one, state: 'running' })));
  const asked = await backUp(at);
  assert.notEqual(asked.id, begun);
  assert.equal((await resources.get(datastoreBackupType, begun)).status.isAsked, undefined);
  assert.equal((await resources.get(datastoreBackupType, asked.id)).spec.by.is, 'person');
});

test('a restore that waits is withdrawn and changes nothing, also in the moment in which it begins; one that runs is left to its end', async () => {
  await using at = await startDatastoreWorld();
  const id = await madeBackup(at);
  const runs = at.database.runs.length;
  await assert.rejects(withdraw(at), { code: 'conflict', message: /nothing waits to be put back into shop-postgres/ });
  await restore(at, id);
  await withdraw(at);
  assert.equal((await listed(at)).restore, undefined);
  await at.step(Date.now());

  await restore(at, id);
  const plan = resourceKey(backupPlanType.name, at.appId);
  beforeWrite(at.world.store, plan, () => withdraw(at));
  await assert.rejects(at.step(Date.now()), { code: 'conflict' });
  await at.step(Date.now());
  assert.deepEqual([(await listed(at)).restore, at.database.runs.length], [undefined, runs]);

  // In the place of one that was withdrawn there may be another of the same millisecond.
  const { content } = at.database;
  at.database.content = Buffer.from('what came later');
  const again = await madeBackup(at);
  await restore(at, again);
  beforeWrite(at.world.store, plan, () => become(at, { backupId: id }));
  await assert.rejects(at.step(Date.now()), { code: 'conflict' });
  await at.step(Date.now());
  const done = (await listed(at)).restore;
  assert.deepEqual([done?.state, done?.backupId, at.database.content], ['complete', id, content]);
  await at.world.client.call(routes.remove, { params: { ...at.params, backup: id } });

  await restore(at, again);
  const startedAt = '2030-01-31T12:00:00.000Z';
  const begun = { state: 'running', by: 'ann', backupId: again, startedAt, wantedMs: 0, attempt: 1, nextMs: 0 };
  beforeWrite(at.world.store, plan, () => rewrite(at, plan, (status) => ({ ...status, restore: begun })));
  await assert.rejects(withdraw(at), {
    code: 'conflict',
    message: new RegExp(
      `^${again} is being put back into shop-postgres since ${startedAt}, and may be taking its place`,
    ),
  });
  assert.equal((await listed(at)).restore?.state, 'running');
});

test('what a cluster that came back has not put back is told as that again once what was to be in its place is withdrawn', async () => {
  await using at = await startDatastoreWorld();
  const id = await madeBackup(at);
  const runs = at.database.runs.length;
  await restore(at, id);
  await become(at, { isOwed: true });
  const before = (await at.plan()).status.restore;
  const plan = resourceKey(backupPlanType.name, at.appId);
  // As whoever begins it has it: it does not begin.
  beforeWrite(at.world.store, plan, () => withdraw(at));
  await assert.rejects(at.step(Date.now()), { code: 'conflict' });
  await at.step(Date.now());
  assert.equal(at.database.runs.length, runs);
  const found = (await at.plan()).status.restore;
  assert.deepEqual([found?.state, found?.isOwed, found?.by, found?.backupId], ['failed', true, undefined, undefined]);
  assert.match(found?.error ?? '', /^root withdrew what was to be put back in its place \(\S+\)$/);
  assert.notEqual(found?.wantedMs, before?.wantedMs, 'a worker of a version before begins it');

  for (const [change, message] of [
    [{ state: 'wanted' }, /once that has failed, "flynn pg backup dismiss -a shop-postgres"/],
    [{ state: 'waiting' }, /the cluster came back, and puts back what was in shop-postgres then/],
    [{ state: 'wanted', isOwed: undefined }, /begins with what is put into it: "flynn resource remove \S+" ends that/],
  ] as const) {
    await at.world.deps.resources.updateStatus(backupPlanType, at.appId, ({ status }) => ({
      ...status,
      restore: { isOwed: true, wantedMs: 0, attempt: 0, nextMs: 0, ...change },
    }));
    await assert.rejects(withdraw(at), { code: 'conflict', message });
  }
});
