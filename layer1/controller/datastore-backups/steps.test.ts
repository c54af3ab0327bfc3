/** Backups of a datastore: made by its members, encrypted, kept, tried again, and put back. */
import assert from 'node:assert/strict';
import { buffer } from 'node:stream/consumers';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { blobGraceMs, collectBlobs } from '../collection/blob-collection.ts';
import { nextTick, parseSchedule } from '../cron/schedule.ts';
import { resources } from '../providers/api.ts';
import { appType } from '../resources.ts';
import { datastoreBackups as routes } from './api.ts';
import { startDatastoreWorld } from './datastore-fixture.ts';
import type { DatastoreWorld } from './datastore-fixture.ts';
import { backupPlanType, datastoreBackupType } from './types.ts';

const { signal } = new AbortController();
const minuteMs = 60_000;
const dayMs = 24 * 60 * minuteMs;

const listed = ({ world, params }: DatastoreWorld) => world.client.call(routes.list, { params });
const stored = async ({ blobs }: DatastoreWorld) => (await Array.fromAsync(blobs.list())).map(({ digest }) => digest);

/** The moment of the plan's first tick. */
async function firstTick(at: DatastoreWorld): Promise<number> {
  await at.step(Date.now());
  const { spec, status } = await at.plan();
  return nextTick(parseSchedule(spec.schedule ?? ''), status.handledMs) ?? Infinity;
}

async function download(at: DatastoreWorld, backup: string): Promise<Buffer> {
  return buffer(await at.world.client.stream(routes.download, { params: { ...at.params, backup } }));
}

test('a datastore is backed up every night without anybody asking, encrypted, and the newest seven are kept', async () => {
  await using at = await startDatastoreWorld();
  const tick = await firstTick(at);
  assert.equal((await at.records()).length, 0);
  const contents: Buffer[] = [];
  for (let day = 0; day < 9; day += 1) {
    contents.push(at.database.content);
    await at.step(tick + day * dayMs);
    at.database.content = Buffer.from(at.database.content.toReversed());
  }
  const { backups, schedule, failure } = await listed(at);
  assert.equal(backups.length, 7);
  assert.deepEqual([schedule.keep, failure], [7, undefined]);
  const [newest] = backups;
  assert.deepEqual([newest?.state, newest?.by, newest?.dumpBytes], ['complete', { is: 'schedule' }, 200_000]);
  assert.deepEqual(await download(at, newest?.id ?? ''), contents.at(-1));
  const [digest = ''] = (await at.records()).map(({ status }) => status.digest ?? '').slice(-1);
  const blob = await buffer(await at.blobs.get(digest));
  assert.ok(blob.length > 200_000 && !blob.includes(contents.at(-1)?.subarray(1_000, 1_064) ?? ''), 'in clear');
  assert.ok(!JSON.stringify(await listed(at)).includes((await at.plan()).spec.secret));

  // Of what is kept no blob is collected, of what is gone each.
  const later = { ...at.world.deps, now: () => Date.now() + 2 * blobGraceMs };
  assert.equal((await stored(at)).length, 9);
  await collectBlobs(later, at.blobs, { signal });
  const kept = (await at.records()).map(({ status }) => status.digest ?? '').toSorted();
  assert.deepEqual((await stored(at)).toSorted(), kept);
});

/** The newest wait of so long, which ends when it is told, and not before. Others are as they are. */
function heldTimer(t: TestContext, heldMs: number): { end: () => void } {
  const held = { end: (): void => assert.fail('nobody waits') };
  const { setTimeout } = globalThis;
  const hold = (run: () => void, waitMs?: number, ...rest: []) => {
    if (waitMs === heldMs) held.end = run;
    return waitMs === heldMs ? setTimeout(() => undefined) : setTimeout(run, waitMs, ...rest);
  };
  t.mock.method(globalThis, 'setTimeout', hold as typeof setTimeout);
  return held;
}

test('one that fails is tried again after 1, 5 and 15 minutes on the other member; then it is told, and the next night is its turn', async (t) => {
  await using at = await startDatastoreWorld();
  const tick = await firstTick(at);
  at.database.misbehaviours.push(
    { is: 'fails', code: 1, says: 'pg_dump: error: no such table', afterBytes: 100_000 },
    { is: 'breaks', afterBytes: 150_000 },
    { is: 'hangs', afterBytes: 10 },
    { is: 'ends early' },
  );
  const errors: unknown[] = [];
  const quietMs = 77_777;
  const quiet = heldTimer(t, quietMs);
  let nowMs = tick;
  for (const pauseMs of [minuteMs, 5 * minuteMs, 15 * minuteMs, undefined]) {
    const step = at.step(nowMs, { quietMs });
    // Before it has begun it would leave its turn to hang to the next.
    if (pauseMs === 15 * minuteMs) {
      await waitFor(() => at.database.misbehaviours.length === 1, { what: 'it to hang', deadlineMs: 60_000 });
      quiet.end();
    }
    await step;
    const [record] = await at.records();
    errors.push(record?.status.error);
    assert.equal(record?.status.digest, undefined);
    assert.equal(record?.status.state, pauseMs === undefined ? 'failed' : 'retrying');
    if (pauseMs === undefined) break;
    const again = await at.step(nowMs + 1);
    assert.equal(again?.againInMs, pauseMs - 1);
    nowMs += pauseMs;
  }
  assert.match(String(errors[0]), /dump ended with 1: pg_dump: error: no such table/);
  assert.match(String(errors[1]), /broke/);
  assert.match(String(errors[2]), /did not get on/);
  assert.match(String(errors[3]), /wrote nothing/);
  assert.equal(new Set(at.database.runs).size, 2, 'members take turns');
  const { failure } = await listed(at);
  assert.deepEqual([failure?.count, failure?.message], [1, errors[3]]);
  assert.deepEqual(await stored(at).then((all) => all.length), 1, 'what was sent of the last one');
  await collectBlobs({ ...at.world.deps, now: () => Date.now() + 2 * blobGraceMs }, at.blobs, { signal });
  assert.deepEqual(await stored(at), []);

  await at.step(tick + dayMs);
  const after = await listed(at);
  assert.deepEqual([after.failure, after.backups[0]?.state], [undefined, 'complete']);
});

test('a worker that died leaves nothing for ever: what it began is tried again, and not for ever', async () => {
  await using at = await startDatastoreWorld();
  await at.step(Date.now());
  const { id } = await at.world.client.call(routes.run, { params: at.params });
  const nowMs = Date.now();
  const begun = (attempt: number) =>
    at.world.deps.resources.updateStatus(datastoreBackupType, id, () => ({
      state: 'running',
      attempt,
      nextMs: nowMs + minuteMs,
    }));
  await begun(1);
  assert.equal((await at.step(nowMs))?.againInMs, minuteMs);
  await at.step(nowMs + minuteMs);
  assert.deepEqual([(await listed(at)).backups[0]?.state, at.database.runs.length], ['complete', 1]);
  await begun(4);
  await at.step(nowMs + minuteMs);
  const [record] = (await listed(at)).backups;
  assert.deepEqual([record?.state, record?.error, at.database.runs.length], ['failed', 'whoever made it died', 1]);
});

test('without a member that runs it fails, and says how to look', async () => {
  await using at = await startDatastoreWorld();
  await at.step(Date.now());
  await at.world.client.call(routes.run, { params: at.params });
  const cell = { ...at.world.deps.cell, statusesByApp: { of: () => [] } };
  Object.assign(at.world.deps, { cell });
  await at.step(Date.now());
  assert.match(
    (await listed(at)).backups[0]?.error ?? '',
    /no member of shop-postgres runs: flynn ps -a shop-postgres/,
  );
});

test('a backup is put back where it is whole; cut off, damaged or refused it changes nothing, and is tried once', async () => {
  await using at = await startDatastoreWorld();
  const { client } = at.world;
  const { params, database } = at;
  await at.step(Date.now());
  const { id } = await client.call(routes.run, { params });
  await at.step(Date.now());
  const before = database.content;
  const later = Buffer.from('what was written since');
  const restore = async () => {
    database.content = later;
    await client.call(routes.restore, { params, body: { backup: id } });
    await assert.rejects(client.call(routes.restore, { params, body: { backup: id } }), /is being put back/);
    await at.step(Date.now());
    await at.step(Date.now());
    return (await listed(at)).restore;
  };
  const good = await restore();
  assert.deepEqual([good?.state, good?.by, good?.backupId, good?.sentBytes], ['complete', 'root', id, before.length]);
  assert.deepEqual(database.content, before);

  const runs = database.runs.length;
  for (const [amiss, error] of [
    [
      { is: 'fails', code: 1, says: 'pg_restore: error', afterBytes: 100_000 },
      /restore ended with 1: pg_restore: error/,
    ],
    [{ is: 'breaks', afterBytes: 100_000 }, /broke before it had ended/],
  ] as const) {
    database.misbehaviours.push(amiss);
    const found = await restore();
    assert.deepEqual([found?.state, database.content], ['failed', later]);
    assert.match(found?.error ?? '', error);
  }
  assert.equal(database.runs.length, runs + 2);

  // Whether it had taken its place is not known: it is not done again over what came since.
  await client.call(routes.restore, { params, body: { backup: id } });
  await at.world.deps.resources.updateStatus(backupPlanType, at.appId, ({ status: { restore, ...rest } }) => {
    assert.ok(restore !== undefined);
    return { ...rest, restore: { ...restore, state: 'running' as const } };
  });
  await at.step(Date.now());
  assert.match((await listed(at)).restore?.error ?? '', /died/);
  assert.equal(database.runs.length, runs + 2);

  // What is not what was written is told before the program is told that it has all.
  const [record] = await at.records();
  assert.ok(record !== undefined);
  const other = await at.blobs.put(Buffer.alloc(150_000, 'x'));
  const whole = await buffer(await at.blobs.get(record.status.digest ?? ''));
  const cut = await at.blobs.put(whole.subarray(0, 150_000));
  for (const [status, error] of [
    [{ ...record.status, dumpBytes: 1 }, /is 200000 bytes, and was 1 when it was made/],
    [{ ...record.status, digest: cut.digest }, /damaged or was cut/],
    [{ ...record.status, digest: other.digest }, /no backup of a datastore/],
  ] as const) {
    await at.world.deps.resources.updateStatus(datastoreBackupType, record.id, () => status);
    const found = await restore();
    assert.deepEqual([found?.state, database.content], ['failed', later]);
    assert.match(found?.error ?? '', error);
  }
  await at.world.deps.resources.updateStatus(datastoreBackupType, record.id, () => record.status);
  const ranBefore = database.runs.length;
  await at.blobs.remove(record.status.digest ?? '');
  const gone = await restore();
  assert.deepEqual([gone?.state, database.content, database.runs.length], ['failed', later, ranBefore]);
});

test('a restore that took its place is never told as one that changed nothing', async () => {
  await using at = await startDatastoreWorld();
  const { client, deps } = at.world;
  const { params, database } = at;
  await at.step(Date.now());
  const { id } = await client.call(routes.run, { params });
  await at.step(Date.now());
  const restore = async () => {
    await client.call(routes.restore, { params, body: { backup: id } });
    await at.step(Date.now());
    return (await listed(at)).restore;
  };
  for (const amiss of [{ is: 'unheard' }, { is: 'unheard', code: 137 }, { is: 'unheard', code: 75 }] as const) {
    database.misbehaviours.push(amiss);
    const found = await restore();
    assert.equal(found?.state, 'failed');
    assert.match(
      found?.error ?? '',
      /^it is not known whether it took its place: look at what is in it before .*(broke|137|75)/,
    );
  }
  // What says itself that it failed has changed nothing.
  database.misbehaviours.push({ is: 'fails', code: 1, says: 'no room', afterBytes: database.content.length });
  assert.match((await restore())?.error ?? '', /^restore ended with 1: no room/);

  // Nobody could write it down for a while.
  const { resources: store } = deps;
  const updateStatus = store.updateStatus.bind(store);
  let failures = 0;
  store.updateStatus = (type, name, change, options) =>
    updateStatus(
      type,
      name,
      (record) => {
        const changed = change(record);
        if (failures < 3 && type.name === backupPlanType.name && JSON.stringify(changed).includes('"complete"')) {
          failures += 1;
          throw new FlynnError('unavailable', 'no leader');
        }
        return changed;
      },
      options,
    );
  const found = await restore();
  assert.deepEqual([found?.state, found?.error, failures], ['complete', undefined, 3]);
});

test('the worker does what is asked for; what is asked for twice is one, and goes with the datastore', async () => {
  await using at = await startDatastoreWorld({ backsUp: true });
  const { client, deps } = at.world;
  const { params, database } = at;
  const settled = { deadlineMs: 60_000, intervalMs: 10 };
  await waitFor(async () => deps.resources.find(backupPlanType, at.appId), { what: 'its plan', ...settled });
  const blocked = Promise.withResolvers<void>();
  database.onRun = () => blocked.promise;
  const first = await client.call(routes.run, { params });
  await waitFor(() => database.runs.length === 1, { what: 'the first', ...settled });
  const second = await client.call(routes.run, { params });
  assert.equal((await client.call(routes.run, { params })).id, second.id, 'one that waits is this wish, too');
  assert.notEqual(second.id, first.id);
  const busy = await client.call(routes.remove, { params: { ...params, backup: first.id } }).catch((e: unknown) => e);
  assert.ok(hasCode(busy, 'conflict'));
  assert.equal(database.runs.length, 1, 'one at a time');
  blocked.resolve();
  const isThrough = async () => (await listed(at)).backups.every(({ state }) => state === 'complete');
  await waitFor(isThrough, { what: 'both', ...settled });
  assert.equal(database.runs.length, 2);
  await client.call(routes.remove, { params: { ...params, backup: first.id } });
  assert.deepEqual(
    (await listed(at)).backups.map(({ id }) => id),
    [second.id],
  );
  assert.deepEqual((await listed(at)).backups[0]?.by, { is: 'person', name: 'root' });

  const content = database.content;
  database.content = Buffer.from('spoilt');
  await client.call(routes.restore, { params, body: { backup: second.id } });
  await waitFor(async () => (await listed(at)).restore?.state === 'complete', { what: 'the restore', ...settled });
  assert.deepEqual(database.content, content);

  await client.call(resources.remove, { params });
  const isGone = async () => (await deps.resources.find(appType, at.appId)) === undefined;
  await waitFor(isGone, { what: 'the end of the datastore', ...settled });
  assert.deepEqual(await at.records(), []);
  assert.equal(await deps.resources.find(backupPlanType, at.appId), undefined);
});

test('the schedule is what people make of it, and its ticks count from then on', async () => {
  await using at = await startDatastoreWorld();
  const { client } = at.world;
  await at.step(Date.now());
  const set = await client.call(routes.schedule, {
    params: at.params,
    body: { schedule: '0 3 * * *', timezone: 'Europe/Berlin', keep: 2 },
  });
  assert.deepEqual([set.schedule, set.timezone, set.keep], ['0 3 * * *', 'Europe/Berlin', 2]);
  for (const body of [{ schedule: 'often' }, { schedule: '0 3 * * *', timezone: 'Mars' }]) {
    const refused = await client.call(routes.schedule, { params: at.params, body }).catch((error: unknown) => error);
    assert.ok(hasCode(refused, 'invalid'));
  }
  const next = Date.parse(set.nextAt ?? '');
  assert.equal((await at.step(next - 5))?.againInMs, 5);
  await at.step(next);
  assert.equal((await at.records()).length, 1);
  await client.call(routes.unschedule, { params: at.params });
  assert.equal(await at.step(next + 10 * dayMs), undefined);
  assert.equal((await at.records()).length, 1);
});
