/** The platform's own databases in a backup of the cluster: dumped before it, and put back before any app meets them empty. */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { createMemoryStore } from '@flynn/store/memory';
import type { Store } from '@flynn/store/store';
import { apps } from '../api.ts';
import { datastoreBackups } from '../datastore-backups/api.ts';
import { TestDatabase, startDatastoreWorld } from '../datastore-backups/datastore-fixture.ts';
import type { DatastoreWorld } from '../datastore-backups/datastore-fixture.ts';
import { datastoreBackupCheck } from '../datastore-backups/findings.ts';
import { backupPlanType, datastoreBackupType } from '../datastore-backups/types.ts';
import { startTestBlobs } from '../testing/blobs.ts';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';
import { backups } from './api.ts';
import { clusterIdOf } from './export.ts';
import { download, images, recordsIn, sourceOf } from './restore-fixture.ts';
import { restoreDatastores, unrestoredIn } from './restore-datastores.ts';
import { restoreApps, restoreBlobs, restoreRecords } from './restore.ts';

const { signal } = new AbortController();
const applianceImages = { postgres: 'flynn/postgres:new' };
const settled = { deadlineMs: 60_000, intervalMs: 10 };
const step = { nowMs: Date.now(), signal, ...images };

async function dumpAll({ world, records }: DatastoreWorld): Promise<void> {
  const asked = await world.client.call(backups.dump, {});
  const isDone = async () =>
    (await records()).filter(({ id, status }) => id === asked[0]?.backup && status.state === 'complete').length === 1;
  await waitFor(isDone, { what: 'the dump', ...settled });
}

async function settledWorld(): Promise<DatastoreWorld> {
  const at = await startDatastoreWorld({ backsUp: true });
  await waitFor(async () => at.world.deps.resources.find(backupPlanType, at.appId), { what: 'its plan', ...settled });
  return at;
}

type Restored = { world: TestController; database: TestDatabase; store: Store };

/** As `up` does it, onto a cluster with a database that is empty; `between`: before databases go live. */
async function restoredOnto(
  archive: Buffer,
  check: (it: Restored & { found: Awaited<ReturnType<typeof restoreDatastores>> }) => Promise<void>,
  between: (it: Restored) => Promise<void> = async () => undefined,
): Promise<void> {
  const store = createMemoryStore();
  const source = await sourceOf(archive);
  await restoreRecords(store, source, step);
  await using blobStore = await startTestBlobs();
  await using world = await startTestController({
    store,
    hosts: 2,
    blobStoreUrl: blobStore.url,
    backsUp: true,
    applianceImages,
  });
  const database = new TestDatabase();
  database.content = Buffer.from('empty');
  database.attach(world);
  await restoreBlobs(store, { baseUrl: async () => blobStore.url, key: 'k' }, source, step);
  await between({ world, database, store });
  const found = await restoreDatastores(store, source, step);
  const live = await world.client.call(apps.get, { params: { app: 'shop' } });
  assert.equal(live.releaseId, undefined, 'no app runs before its database is what it was');
  assert.equal(await restoreApps(store, source, step), 1);
  assert.equal(await restoreDatastores(store, source, step), undefined, 'what is done is done');
  await world.jobsOf('shop', 1);
  await check({ world, database, store, found });
}

test('what is in a database comes back with the cluster, once, before the apps go live; and it is backed up on', async () => {
  await using at = await settledWorld();
  await dumpAll(at);
  const { content } = at.database;
  at.database.content = Buffer.from('what was written after the backup');
  const archive = await download(at.world);
  const { inspection } = await sourceOf(archive);
  assert.equal(inspection.records['records/datastore-backup.ndjson'], 1);
  await restoredOnto(archive, async ({ world, database, store, found }) => {
    assert.deepEqual(found, { count: 1, failed: [] });
    assert.deepEqual(database.content, content);
    assert.equal(database.runs.filter((run) => run.startsWith('restore')).length, 1);
    assert.deepEqual(await unrestoredIn(store, step), []);
    const artifacts = [...(await recordsIn(store, 'artifact')).values()].map(({ spec }) => JSON.stringify(spec));
    assert.ok(
      artifacts.some((spec) => spec.includes('flynn/postgres:new')) && !artifacts.join().includes('postgres:old'),
    );
    const { params } = at;
    const { id } = await world.client.call(datastoreBackups.run, { params });
    const isDone = async () => {
      const all = (await world.client.call(datastoreBackups.list, { params })).backups;
      return all.find((one) => one.id === id)?.state === 'complete' && all.length === 2;
    };
    await waitFor(isDone, { what: 'a backup of it', ...settled });
  });
});

test('a database that cannot be put back is told by name, stays told, and nothing takes the place of its backup', async () => {
  await using at = await settledWorld();
  await dumpAll(at);
  const broken = async ({ database, store }: Restored): Promise<void> => {
    database.misbehaviours.push({ is: 'fails', code: 1, says: 'no room on the disk' });
    // After its last try.
    const [key = ''] = (await store.list('/flynn/resource/backup-plan/')).entries.map((entry) => entry.key);
    const entry = await store.get(key);
    const value = (entry?.value ?? '').replace('"attempt":0', '"attempt":3');
    await store.transact({ then: [{ put: key, value }] });
  };
  await restoredOnto(
    await download(at.world),
    async ({ world, database, store, found }) => {
      const error = 'restore ended with 1: no room on the disk';
      assert.deepEqual(found, { count: 0, failed: [{ datastore: 'shop-postgres', command: 'pg', error }] });
      assert.deepEqual(await unrestoredIn(store, step), found?.failed);
      const check = datastoreBackupCheck(world.deps);
      const [finding] = await check.find(signal);
      assert.deepEqual([finding?.severity, finding?.subject], ['critical', 'database shop-postgres']);
      assert.deepEqual(await world.client.call(backups.dump, {}), [], 'it is backed up no more by itself');
      const { params } = at;
      const [kept] = (await world.client.call(datastoreBackups.list, { params })).backups;
      const restore = () => world.client.call(datastoreBackups.restore, { params, body: { backup: kept?.id ?? '' } });
      database.misbehaviours.push({ is: 'fails', code: 1, says: 'still no room' });
      await restore();
      const hasFailed = async () => (await check.find(signal))[0]?.what.includes('still no room') === true;
      await waitFor(hasFailed, { what: 'another try to fail', ...settled });
      assert.deepEqual(await world.client.call(backups.dump, {}), [], 'one that failed changes nothing of that');
      await restore();
      const isDone = async () =>
        (await check.find(signal)).length === 0 && database.content.equals(at.database.content);
      await waitFor(isDone, { what: 'it to be put back', ...settled });
    },
    broken,
  );
});

test('what is done without is dismissed', async () => {
  await using at = await settledWorld();
  const archive = await buffer(await at.world.client.stream(backups.download, { body: { mayMiss: true } }));
  await restoredOnto(archive, async ({ world, found }) => {
    assert.match(found?.failed[0]?.error ?? '', /there is no backup of shop-postgres to put back/);
    await world.client.call(datastoreBackups.dismiss, { params: at.params });
    assert.deepEqual(await datastoreBackupCheck(world.deps).find(signal), []);
    assert.equal((await world.client.call(backups.dump, {})).length, 1);
  });
});

test('a database that cannot be dumped fails the backup of the cluster, by name; so does one that never was', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'flynn-backups-'));
  await using at = await settledWorld();
  try {
    const { client, deps } = at.world;
    const detail = { undumped: ['shop-postgres'] };
    await assert.rejects(download(at.world), { message: /could not be dumped: shop-postgres/, detail });
    assert.deepEqual(await client.call(backups.dump, { body: { only: ['another'] } }), []);
    await client.call(backups.schedule, { body: { schedule: '0 3 * * *', to: { host: 'host1', directory } } });
    at.database.misbehaviours.push({ is: 'fails', code: 1, says: 'no such role' });
    await client.call(backups.run, {});
    const ended = async () => (await client.call(backups.list, {})).backups.find(({ state }) => state !== 'running');
    const failed = await waitFor(ended, { what: 'the backup', ...settled });
    assert.deepEqual(failed.state, 'retrying');
    assert.match(failed.error ?? '', /shop-postgres \(dump ended with 1: no such role\)/);
    await client.call(backups.run, {});
    const whole = async () => (await client.call(backups.list, {})).backups.some(({ state }) => state === 'complete');
    await waitFor(whole, { what: 'the next one', ...settled });
    const [record] = await at.records();
    assert.deepEqual([record?.spec.by, record?.status.state], [{ is: 'cluster backup' }, 'complete']);
    assert.notEqual(clusterIdOf(deps), '');
  } finally {
    await rm(directory, { recursive: true });
  }
});

test('of a name a database is dumped once: one that has a dump is none that was made meanwhile', async () => {
  await using at = await settledWorld();
  const { client } = at.world;
  const body = { only: ['shop-postgres'] };
  assert.equal((await client.call(backups.dump, { body })).length, 1);
  const isDone = async () => (await at.records()).some(({ status }) => status.state === 'complete');
  await waitFor(isDone, { what: 'the dump', ...settled });
  assert.deepEqual(await client.call(backups.dump, { body }), []);
  await download(at.world);
});

test('a dump that the blob store lost fails the backup by name, and of each database the newest alone is in it', async () => {
  await using at = await settledWorld();
  await dumpAll(at);
  const { params } = at;
  const { id } = await at.world.client.call(datastoreBackups.run, { params });
  const isDone = async () => (await at.world.deps.resources.get(datastoreBackupType, id)).status.state === 'complete';
  await waitFor(isDone, { what: 'another', ...settled });
  const { inspection } = await sourceOf(await download(at.world));
  assert.deepEqual([inspection.blobs, inspection.records['records/datastore-backup.ndjson']], [1, 1]);
  const { status } = await at.world.deps.resources.get(datastoreBackupType, id);
  await at.blobs.remove(status.digest ?? '');
  await assert.rejects(download(at.world), new RegExp(`${id} of shop-postgres`));
});

test('a cluster without databases and hooks makes a backup that a flynn of before reads', async () => {
  await using blobs = await startTestBlobs();
  await using world = await startTestController({ blobStoreUrl: blobs.url, hosts: 1 });
  const { inspection } = await sourceOf(await download(world));
  const names = inspection.manifest.parts.map(({ name }) => name);
  assert.ok(names.includes('records/app.ndjson'));
  assert.deepEqual(
    names.filter((name) => /datastore|plan|hook/.test(name)),
    [],
  );
});
