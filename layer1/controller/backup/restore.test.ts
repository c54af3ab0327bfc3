/** A cluster is backed up while it runs, restored onto another, and compared object by object. */
import assert from 'node:assert/strict';
import { buffer } from 'node:stream/consumers';
import { test } from 'node:test';
import { encryptionKey } from '@flynn/host-agent/network/encryption';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { createMemoryStore } from '@flynn/store/memory';
import { apps, formations, releases } from '../api.ts';
import { users } from '../access/api.ts';
import { createControllerClient } from '../client.ts';
import { collectReleases } from '../collection/collection.ts';
import { platformKinds } from '../generic/kinds.ts';
import { ticketsType } from '../certificates/tickets.ts';
import { startTestBlobs } from '../testing/blobs.ts';
import { startTestController } from '../testing.ts';
import { notifications } from '../notifications/api.ts';
import { restoredQueue } from '../notifications/queue.ts';
import { notificationType } from '../notifications/types.ts';
import { backups } from './api.ts';
import { keptTypes, leftTypes } from './contents.ts';
import { inspectArchive } from './inspection.ts';
import { backupScheduleType, scheduleId } from './resources.ts';
import {
  bytesOf,
  download,
  fillCluster,
  images,
  recordsIn,
  restored,
  slugRunnerImage,
  sourceOf,
  types,
} from './restore-fixture.ts';
import { restoreApps, restoreBlobs, restoreRecords } from './restore.ts';

const signal = new AbortController().signal;
const step = { nowMs: Date.now(), signal, ...images };

test('of every kind it is said whether a backup has it', () => {
  const known = new Set([...keptTypes, ...leftTypes]);
  assert.deepEqual(
    platformKinds.map(({ type }) => type).filter((type) => !known.has(type)),
    [],
  );
  assert.ok(known.has(ticketsType));
});

test('what people made comes back on a cluster of another size, object by object, and runs', async () => {
  await using before = await startTestBlobs();
  await using world = await startTestController({ blobStoreUrl: before.url, hosts: 3 });
  const { token, digests } = await fillCluster(world, before.blobs);
  const archive = await download(world);
  const { inspection } = await sourceOf(archive);
  assert.equal(inspection.blobs, digests.length);
  assert.equal(inspection.platform.apps['git-receiver']?.counts['web'], 1);
  const store = createMemoryStore();
  const between = async (): Promise<void> => {
    const found = await recordsIn(store, 'app');
    const shop = [...found.values()].find(({ spec }) => (spec as { name: string }).name === 'shop');
    assert.deepEqual(shop?.['status'], { lastVersion: 2, wasLive: true }, 'it is not live before its blobs are there');
    assert.equal((await recordsIn(store, 'source')).size, 0);
  };
  await restored(archive, { store, hosts: 1, between }, async (other, blobs) => {
    for (const digest of digests) assert.equal((await blobs.stat(digest)).digest, digest);
    await other.jobsOf('shop', 4);
    for (const type of types) {
      const [old, now] = [await recordsIn(world.store, type), await recordsIn(store, type)];
      for (const [key, record] of old) {
        const { spec } = record as { spec: Record<string, unknown> };
        const owner = record['owner'] as { id: string } | undefined;
        const app = (await recordsIn(world.store, 'app')).get(`/flynn/resource/app/${owner?.id}`);
        const isPlatforms = (app?.['spec'] as { isSystem?: boolean } | undefined)?.isSystem === true;
        if (isPlatforms && ['release', 'formation'].includes(type)) continue;
        if (type === 'artifact' && 'name' in (spec['image'] as object)) continue;
        if (spec['isPlatform'] === true) continue;
        assert.deepEqual(withoutChanges(type, now.get(key)), withoutChanges(type, record), key);
      }
    }
    const shop = await other.client.call(apps.get, { params: { app: 'shop' } });
    const release = await other.client.call(releases.get, { params: { app: 'shop', release: shop.releaseId ?? '' } });
    assert.equal(release.version, 1, 'it runs what it had gone back to');
    assert.deepEqual(release.env, { SECRET: 's the first' });
    const { processes } = await other.client.call(formations.get, { params: { app: 'shop', release: release.id } });
    assert.deepEqual(processes, { web: 3, worker: 1 });
    const artifact = await other.client.call(releases.getArtifact, { params: { artifact: release.artifactId ?? '' } });
    assert.ok('base' in artifact.image && artifact.image.base === slugRunnerImage, 'on the image that is here');
    await using ada = createControllerClient({ baseUrl: other.url, key: token });
    assert.deepEqual((await ada.call(apps.list, {})).map(({ name }) => name).toSorted(), [
      'empty',
      'git-receiver',
      'shop',
    ]);
    const platform = await other.client.call(apps.get, { params: { app: 'git-receiver' } });
    assert.equal(platform.releaseId, undefined, 'the platform makes its own parts anew');
    const next = await other.makeRelease('shop', { web: {} });
    assert.equal(next.version, 3, 'numbers go on');
    assert.equal((await other.deploy('shop', next.id)).state, 'complete');
  });
});

test('a backup tells whether nothing was sent in clear between hosts at its moment', async () => {
  await using blobs = await startTestBlobs();
  await using world = await startTestController({ blobStoreUrl: blobs.url });
  const told = async (): Promise<unknown> => (await sourceOf(await download(world))).inspection.platform.isEncrypted;
  assert.equal(await told(), false);
  for (const [value, isEncrypted] of [
    ['"ready"', false],
    ['"sent"', true],
    ['"on"', true],
    ['what nobody can read', true],
  ] as const) {
    await world.store.transact({ then: [{ put: encryptionKey, value }] });
    assert.equal(await told(), isEncrypted, value);
  }
});

/** What a restore changes on purpose. */
function withoutChanges(type: string, record: Record<string, unknown> | undefined): unknown {
  if (record === undefined) return undefined;
  const { status, spec, ...rest } = record as { status: Record<string, unknown>; spec: Record<string, unknown> };
  if (type === 'app' && spec['isSystem'] === true) return { ...rest, spec };
  if (type === 'artifact') return { ...rest, spec: { ...spec, image: { ...(spec['image'] as object), base: '' } } };
  if (type === 'cron') return { ...rest, spec, status: { ...status, handledMs: 0 } };
  // How it goes is looked at anew.
  if (type === 'autoscale') return { ...rest, spec };
  if (type === 'notification') return { ...rest, spec };
  if (type === 'source') return { ...rest, spec, updatedAt: '' };
  return record;
}

test('a notification comes back without what waited, and without its pulse until somebody says so', async () => {
  await using before = await startTestBlobs();
  await using world = await startTestController({ blobStoreUrl: before.url, hasWorker: false });
  await world.client.call(notifications.create, {
    body: { name: 'ops', url: 'https://192.0.2.1', on: ['heartbeat'], everyMinutes: 5 },
  });
  const [made] = await world.deps.resources.list(notificationType);
  const failing = { since: '2026-06-01T12:00:00Z', count: 3, answer: '404', nextMs: 5 };
  await world.deps.resources.updateStatus(notificationType, made?.id ?? '', ({ status }) => ({
    ...status,
    failing,
    heartbeatMs: 5,
  }));
  const store = createMemoryStore();
  await restoreRecords(store, await sourceOf(await download(world)), step);
  const [ops] = (await recordsIn(store, 'notification')).values();
  assert.deepEqual(ops?.['status'], restoredQueue);
});

test('the schedule of backups comes back without the backup that was being made: that one is what was restored', async () => {
  await using before = await startTestBlobs();
  await using world = await startTestController({ blobStoreUrl: before.url });
  const spec = { schedule: '0 3 * * *', to: { host: 'h', directory: '/b' }, keep: 2 };
  const status = { handledMs: 5, isWanted: true, pending: { tickMs: 5, attempt: 1, nextMs: 60_005 } };
  await world.deps.resources.create(backupScheduleType, { id: scheduleId, spec, status });
  const store = createMemoryStore();
  await restoreRecords(store, await sourceOf(await download(world)), step);
  const [schedule] = (await recordsIn(store, 'backup-schedule')).values();
  assert.deepEqual([schedule?.['spec'], schedule?.['status']], [spec, { handledMs: 5 }]);
});

test('a restore that was broken off goes on: nothing is collected meanwhile, and another archive is refused', async () => {
  await using before = await startTestBlobs();
  await using world = await startTestController({ blobStoreUrl: before.url });
  await fillCluster(world, before.blobs);
  const archive = await download(world);
  const source = await sourceOf(archive);
  const store = createMemoryStore();
  let reads = 0;
  const broken = {
    ...source,
    open: async function* () {
      for await (const chunk of source.open()) {
        reads += 1;
        if (reads > 1) throw new Error('the disk is gone');
        yield chunk.subarray(0, 20_000);
      }
    },
  };
  await assert.rejects(restoreRecords(store, broken, step), /the disk is gone/);
  await using blobStore = await startTestBlobs();
  const target = { baseUrl: async () => blobStore.url, key: 'k' };
  assert.equal(await restoreBlobs(store, target, source, step), undefined, 'stages come in their order');
  assert.equal(await restoreApps(store, source, step), undefined);
  await world.client.call(users.create, { body: { name: 'late' } });
  const another = await sourceOf(await download(world));
  await assert.rejects(restoreRecords(store, another, step), /another backup is being restored/);
  assert.notEqual(await restoreRecords(store, source, step), undefined);
  await using other = await startTestController({ store, blobStoreUrl: blobStore.url });
  await assert.rejects(download(other), /is being restored onto this cluster/);
  const later = { ...other.deps, now: () => Date.now() + 400 * 86_400_000 };
  assert.equal(await collectReleases(later, { signal }), 0);
  assert.equal((await other.client.call(releases.list, { params: { app: 'shop' } })).length, 2);
  const away = { ...source, open: () => bytesOf(archive.subarray(0, 30_000)) };
  await assert.rejects(restoreBlobs(store, target, away, step), hasCodeOf('invalid'));
  assert.ok(((await restoreBlobs(store, target, source, step)) ?? 0) > 0);
  assert.equal(await restoreApps(store, source, step), 1);
  await other.jobsOf('shop', 4);
});

const hasCodeOf = (code: 'invalid' | 'conflict') => (error: unknown) => hasCode(error, code);

test('a cluster that something was made on is left alone', async () => {
  await using before = await startTestBlobs();
  await using world = await startTestController({ blobStoreUrl: before.url });
  await world.client.call(users.create, { body: { name: 'ada' } });
  const source = await sourceOf(await download(world));
  const entries = (await world.store.list('/flynn/resource/')).entries.map(({ key, value }) => [key, value]);
  await assert.rejects(restoreRecords(world.store, source, step), /not empty/);
  const after = (await world.store.list('/flynn/resource/')).entries.map(({ key, value }) => [key, value]);
  assert.deepEqual(after, entries);
});

test('a blob that is missing fails the backup, naming the release, unless it may be missing', async () => {
  await using before = await startTestBlobs();
  await using world = await startTestController({ blobStoreUrl: before.url });
  const { digests } = await fillCluster(world, before.blobs);
  const [, , second = ''] = digests;
  await before.blobs.remove(second);
  await assert.rejects(download(world), /shop v2/);
  const archive = await buffer(await world.client.stream(backups.download, { body: { mayMiss: true } }));
  const { manifest, blobs } = await inspectArchive(bytesOf(archive));
  assert.deepEqual(manifest.missing, [second]);
  assert.equal(blobs, digests.length - 1);
});

test('the record of a build that is lost, or never came along with an imported app, holds up no backup', async () => {
  await using before = await startTestBlobs();
  await using world = await startTestController({ blobStoreUrl: before.url });
  const { client } = world;
  await client.call(apps.create, { body: { name: 'shop' } });
  const layer = await before.blobs.put('code');
  const kept = await before.blobs.put('a record');
  const lost = `sha256:${'0'.repeat(64)}`;
  for (const result of [kept.digest, lost]) {
    const body = { type: 'slug' as const, image: { base: 'slug-runner', layers: [layer] }, meta: { result } };
    const artifact = await client.call(releases.createArtifact, { body });
    await client.call(releases.create, { params: { app: 'shop' }, body: { artifactId: artifact.id } });
  }
  const { manifest, blobs } = await inspectArchive(bytesOf(await download(world)));
  assert.deepEqual([manifest.missing, blobs], [[lost], 2]);
  await before.blobs.remove(layer.digest);
  await assert.rejects(download(world), /lacks 1 of what .*\(shop v\d, shop v\d\)/);
});

test('what goes before the records is done once more while these are broken off, and not once they are there', async () => {
  await using world = await startTestController();
  await world.deployApp('shop', { web: {} });
  const source = await sourceOf(await download(world));
  const store = createMemoryStore();
  let count = 0;
  const beforeAny = async (): Promise<void> => {
    count += 1;
    if (count === 1) throw new FlynnError('unavailable', 'broken off');
  };
  await assert.rejects(restoreRecords(store, source, { ...step, beforeAny }), /broken off/);
  assert.ok(((await restoreRecords(store, source, { ...step, beforeAny })) ?? 0) > 0);
  // Somebody may have changed since what was done.
  assert.equal(await restoreRecords(store, source, { ...step, beforeAny }), undefined);
  assert.equal(count, 2);
});
