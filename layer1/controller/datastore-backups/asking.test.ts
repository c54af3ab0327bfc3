/** Fresh backups of all datastores: which they are, how long they are waited for, and what becomes of the wait. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { resourceKey } from '@flynn/resource/keys';
import { dumpsAt } from '../backup/dumps.ts';
import { appType } from '../resources.ts';
import { freshBackups } from './asking.ts';
import { addDatastore, startDatastoreWorld } from './datastore-fixture.ts';
import type { DatastoreWorld } from './datastore-fixture.ts';
import { awaitsDeployment } from './lanes.ts';
import { nextOrder, superfluous } from './plan.ts';
import { backupPlanType, datastoreBackupType } from './types.ts';

const { signal } = new AbortController();
const minuteMs = 60_000;

/** Time passes where it is waited for, and `then` is told of each minute. */
async function wait({ world }: DatastoreWorld, then: (minute: number) => Promise<void>): Promise<number> {
  let ms = 0;
  const beganMs = Date.now();
  const clock = {
    now: () => ms,
    async sleep(sleptMs: number) {
      const before = Math.floor(ms / minuteMs);
      ms += sleptMs;
      const minute = Math.floor(ms / minuteMs);
      assert.ok(minute < 1_000, 'it waits for ever');
      if (minute > before) await then(minute);
    },
  };
  await freshBackups({ ...world.deps, now: () => beganMs + ms }, { signal, clock });
  return ms;
}

/** One that is made for the cluster's backup, and another of the same datastore that is under way. */
async function underWay({ world, appId }: DatastoreWorld): Promise<(dumpBytes: number) => Promise<void>> {
  const status = { state: 'running' as const, attempt: 1, nextMs: 0, dumpBytes: 0 };
  const owner = { type: appType.name, id: appId };
  const spec = { by: { is: 'schedule' as const } };
  const { resources } = world.deps;
  const { id } = await resources.create(datastoreBackupType, { owner, spec, status }, { signal });
  return async (dumpBytes) => {
    await resources.updateStatus(datastoreBackupType, id, () => ({ ...status, dumpBytes }), { signal });
  };
}

const askedOf = async (at: DatastoreWorld) =>
  (await at.records()).filter(({ spec }) => spec.by.is === 'cluster backup');

test('one that waits for its turn is waited for as long as another gets on, and no longer', async () => {
  await using at = await startDatastoreWorld();
  await at.step(Date.now());
  const { resources } = at.world.deps;
  const getOn = await underWay(at);
  const waitedMs = await wait(at, async (minute) => {
    if (minute < 120) return getOn(minute);
    const [asked] = await askedOf(at);
    assert.equal(asked?.status.state, 'queued');
    await resources.updateStatus(datastoreBackupType, asked.id, (one) => ({
      ...one.status,
      state: 'complete' as const,
    }));
  });
  assert.equal(Math.floor(waitedMs / minuteMs), 120);
  const [begun] = await askedOf(at);
  await resources.delete(datastoreBackupType, begun?.id ?? '', { signal });
  let last = 0;
  await assert.rejects(
    wait(at, async (minute) => {
      last = minute;
      if (minute < 30) await getOn(1_000 + minute);
    }),
    { code: 'conflict', message: /shop-postgres \(nobody makes it/ },
  );
  assert.ok(last >= 49 && last <= 52, `given up after ${last} minutes`);
});

test('one whose dump is made and replaced, while another is waited for, has the newer one; what had begun before is none', async () => {
  await using at = await startDatastoreWorld();
  await at.step(Date.now());
  const { resources } = at.world.deps;
  const becomes = async (id: string, state: 'running' | 'complete') => {
    await resources.updateStatus(datastoreBackupType, id, (one) => ({ ...one.status, state }));
  };
  const forget = async () => {
    const asked = (await askedOf(at)).find(({ status }) => status.state === 'queued');
    await resources.delete(datastoreBackupType, asked?.id ?? '', { signal });
  };
  const another = async (state: 'running' | 'complete') => {
    const input = { owner: { type: appType.name, id: at.appId }, spec: { by: { is: 'cluster backup' as const } } };
    const { id } = await resources.create(datastoreBackupType, input, { signal });
    await becomes(id, state);
    return id;
  };
  await wait(at, async () => {
    await forget();
    await another('complete');
  });
  // It is complete by then, and does not have in it what was written before this backup was asked for.
  const begunBefore = await another('running');
  const late = wait(at, async () => {
    await becomes(begunBefore, 'complete');
    await forget();
  });
  await assert.rejects(late, {
    code: 'conflict',
    message: /shop-postgres \(it was cancelled, or deleted, meanwhile\)/,
  });
});

test('one that a worker left half made is waited for as long as the next makes others', async () => {
  await using at = await startDatastoreWorld();
  await at.step(Date.now());
  const { resources } = at.world.deps;
  const getOn = await underWay(at);
  const waitedMs = await wait(at, async (minute) => {
    const [asked] = await askedOf(at);
    const state = minute === 1 ? ('running' as const) : minute === 90 ? ('complete' as const) : undefined;
    if (state === undefined) return getOn(minute);
    await resources.updateStatus(datastoreBackupType, asked?.id ?? '', (one) => ({ ...one.status, state }));
  });
  assert.equal(Math.floor(waitedMs / minuteMs), 90);
});

test('one that waits for a restore is waited for, and one that is begun has twenty minutes again', async () => {
  await using at = await startDatastoreWorld();
  await at.step(Date.now());
  const { resources } = at.world.deps;
  const restore = { state: 'running', wantedMs: 0, attempt: 1, nextMs: 0 } as const;
  await resources.updateStatus(backupPlanType, at.appId, ({ status }) => ({ ...status, restore }));
  let last = 0;
  await assert.rejects(
    wait(at, async (minute) => {
      last = minute;
      if (minute !== 60) return;
      await resources.updateStatus(backupPlanType, at.appId, ({ status: { restore: _r, ...status } }) => status);
      const [asked] = await askedOf(at);
      const begun = { state: 'running', attempt: 1, nextMs: 0 } as const;
      await resources.updateStatus(datastoreBackupType, asked?.id ?? '', () => begun);
    }),
    /nobody makes it/,
  );
  assert.ok(last >= 80 && last <= 82, `given up after ${last} minutes`);
});

test('a restore that waits for what is deployed is waited for as long as it does, and twenty minutes more', async () => {
  await using at = await startDatastoreWorld();
  await at.step(Date.now());
  const { resources } = at.world.deps;
  const app = { status: { deploymentId: 'd1', lastVersion: 1 } };
  const wantedMs = Date.now();
  const restore = { state: 'wanted', by: 'ann', wantedMs, attempt: 0, nextMs: 0 } as const;
  await resources.updateStatus(backupPlanType, at.appId, ({ status }) => ({ ...status, restore }));
  let [waited, last] = [0, 0];
  const waiting = wait(at, async (minute) => {
    last = minute;
    if (awaitsDeployment(app, restore, wantedMs + minute * minuteMs)) waited = minute;
  });
  await assert.rejects(waiting, /shop-postgres \(nobody makes it/);
  assert.ok(
    last >= waited + 20 && last <= waited + 30,
    `given up after ${last} minutes, ${waited} of them for what is deployed`,
  );
});

test('one that is deleted meanwhile is none, unless its datastore goes too', async () => {
  await using at = await startDatastoreWorld();
  await at.step(Date.now());
  const { deps } = at.world;
  const forget = async () => {
    const [asked] = await askedOf(at);
    await deps.resources.delete(datastoreBackupType, asked?.id ?? '', { signal });
  };
  await assert.rejects(wait(at, forget), {
    code: 'conflict',
    message: /shop-postgres \(it was cancelled, or deleted, meanwhile\)/,
  });
  await wait(at, async () => {
    await forget();
    await deps.resources.delete(appType, at.appId, { signal });
  });
});

test('a dump whose date is in the future is in no backup of the cluster after it, and costs no fresh one its place', async () => {
  await using at = await startDatastoreWorld();
  const { store } = at.world;
  await at.step(Date.now());
  const made = async () => {
    const known = new Set((await at.records()).map(({ id }) => id));
    await wait(at, async () => void (await at.step(Date.now())));
    const fresh = (await at.records()).find(({ id }) => !known.has(id));
    const { revision } = await store.list('/flynn/none/');
    const dumps = await dumpsAt(store, { revision, signal });
    return { fresh: fresh?.id, isKept: fresh?.status.state === 'complete', taken: dumps.map(({ id }) => id) };
  };
  const first = await made();
  // As a version of before wrote it, by a clock that was ahead.
  const key = resourceKey(datastoreBackupType.name, first.fresh ?? '');
  const record = JSON.parse((await store.get(key))?.value ?? '');
  const { orderMs: _, ...status } = record.status;
  const createdAt = new Date(Date.now() + 30 * 24 * 60 * minuteMs).toISOString();
  await store.transact({ then: [{ put: key, value: JSON.stringify({ ...record, createdAt, status }) }] });
  for (const _ of [1, 2]) {
    const { fresh, isKept, taken } = await made();
    assert.ok(fresh !== undefined && isKept);
    assert.deepEqual(taken, [fresh]);
    assert.deepEqual(
      (await askedOf(at)).map(({ id }) => id),
      [fresh],
    );
  }
  assert.ok(nextOrder(await at.records(), Date.now()) > Date.parse(createdAt));
});

test('a datastore that is made while others are dumped is dumped as well, also where its members come up later', async () => {
  await using at = await startDatastoreWorld();
  await at.step(Date.now());
  const { deps } = at.world;
  let newId = '';
  const all = () => deps.resources.list(datastoreBackupType, { signal });
  const becomes = async (id: string | undefined, change: object) => {
    await deps.resources.updateStatus(datastoreBackupType, id ?? '', (one) => ({ ...one.status, ...change }));
  };
  await wait(at, async (minute) => {
    const [asked] = await askedOf(at);
    if (minute === 1) {
      await at.world.deployApp('late', { web: {} });
      newId = (await addDatastore(at.world, 'late')).appId;
      return becomes(asked?.id, { state: 'complete' });
    }
    const late = (await all()).find(({ owner }) => owner?.id === newId);
    if (minute === 2) await becomes(late?.id, { state: 'retrying', attempt: 1, error: 'no member of it runs' });
    if (minute === 5) await becomes(late?.id, { state: 'complete', attempt: 2 });
  });
  const complete = (await all()).filter(({ status }) => status.state === 'complete');
  assert.deepEqual(new Set(complete.map(({ owner }) => owner?.id)), new Set([at.appId, newId]));
});

test('what a cluster brought with it and could not put back is in its backups, whatever was backed up since', async () => {
  await using at = await startDatastoreWorld();
  await at.step(Date.now());
  const { store, resources } = at.world.deps;
  const make = async (by: 'cluster backup' | 'schedule', orderMs: number) => {
    const status = { state: 'complete' as const, attempt: 1, nextMs: 0, orderMs };
    const input = { owner: { type: appType.name, id: at.appId }, spec: { by: { is: by } }, status };
    return (await resources.create(datastoreBackupType, input, { signal })).id;
  };
  const taken = async () => {
    const { revision } = await store.list('/flynn/none/');
    return (await dumpsAt(store, { revision, signal })).map(({ id }) => id);
  };
  const brought = await make('cluster backup', 1);
  const restore = { state: 'failed', isOwed: true, wantedMs: 0, attempt: 4, nextMs: 0 } as const;
  await resources.updateStatus(backupPlanType, at.appId, ({ status }) => ({ ...status, restore }));
  const since = await make('cluster backup', 2);
  assert.deepEqual(await taken(), [brought]);
  assert.deepEqual(superfluous(await at.records(), 1, (await at.plan()).status.restore), []);

  // As it is once it was put back, or somebody does without it.
  await resources.updateStatus(backupPlanType, at.appId, ({ status: { restore: _r, ...status } }) => status);
  assert.deepEqual(await taken(), [since]);
});
