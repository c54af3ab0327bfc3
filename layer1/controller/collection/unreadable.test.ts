/** A record that this version cannot read keeps all that it may refer to, and is told. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { nameKey, resourceKey } from '@flynn/resource/keys';
import { isUnreadable } from '@flynn/resource/record';
import { grantType } from '../access/resources.ts';
import { apps, jobs, releases } from '../api.ts';
import { stepDeletion } from '../apps/deletion.ts';
import { datastoreBackupType } from '../datastore-backups/types.ts';
import { archiveType, historyType } from '../datastore-history/types.ts';
import { create, get, join, newApp } from '../operations/lifecycle-fixture.ts';
import { openOperations } from '../operations/parts.ts';
import { operationLock } from '../operations/writer.ts';
import {
  appFinalizer,
  appType,
  artifactType,
  deploymentType,
  drainType,
  operationType,
  ownedBy,
  releaseType,
  routeType,
} from '../resources.ts';
import { startTestBlobs } from '../testing/blobs.ts';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';
import { collections } from './api.ts';
import { blobGraceMs, collectBlobs } from './blob-collection.ts';
import { collectArtifacts } from './collection.ts';
import { collectionCheck } from './findings.ts';
import { collectAll } from './rounds.ts';

const { signal } = new AbortController();

/** Of the app `shop`. */
async function liveRelease(world: TestController) {
  const { client } = world;
  const { id: appId } = await client.call(apps.create, { body: { name: 'shop' } });
  const artifact = { type: 'image' as const, image: { name: 'test/image' } };
  const { id: artifactId } = await client.call(releases.createArtifact, { body: artifact });
  const body = { artifactId, processes: { web: {} } };
  const { id } = await client.call(releases.create, { params: { app: 'shop' }, body });
  await world.deploy('shop', id);
  return { id, appId, artifactId };
}

test('what a later version wrote of a live app, its release, its slug, or of backups and histories costs none of them anything', async () => {
  await using world = await startTestController();
  await using blobStore = await startTestBlobs();
  const { blobs } = blobStore;
  const { client, store, deps } = world;
  const later = { ...deps, now: () => Date.now() + blobGraceMs + 60_000 };
  const { id: appId } = await client.call(apps.create, { body: { name: 'shop' } });
  const layer = await blobs.put('layer');
  const image = { base: 'slug-runner', layers: [layer] };
  const { id: artifactId } = await client.call(releases.createArtifact, { body: { type: 'slug', image } });
  const params = { app: 'shop' };
  const { id: releaseId } = await client.call(releases.create, {
    params,
    body: { artifactId, processes: { web: {} } },
  });
  assert.equal((await world.deploy('shop', releaseId)).state, 'complete');
  const cache = `cache/${appId}`;
  await blobs.putName(cache, (await blobs.put('cache')).digest);
  // Something unreadable refers to it, as far as anybody knows.
  const held = await blobs.put('held');
  const isThere = async () => {
    const digests = new Set((await Array.fromAsync(blobs.list())).map(({ digest }) => digest));
    const names = (await Array.fromAsync(blobs.listNames())).map(({ name }) => name);
    await deps.resources.get(artifactType, artifactId);
    await deps.resources.get(releaseType, releaseId);
    return [digests.has(layer.digest), names.includes(cache), digests.has(held.digest)];
  };
  const keys = [
    resourceKey(appType.name, appId),
    resourceKey(artifactType.name, artifactId),
    resourceKey(releaseType.name, releaseId),
    ...[datastoreBackupType, historyType, archiveType, operationType].map(({ name }) => resourceKey(name, 'broken')),
  ];
  for (const key of keys) {
    const before = await store.get(key);
    const record = { ...JSON.parse(before?.value ?? '{}'), version: 99 };
    await store.transact({ then: [{ put: key, value: JSON.stringify(record) }] });
    const isTold = (error: unknown): boolean =>
      isUnreadable(error) && hasCode(error, 'internal') && error.message.includes(key);
    await assert.rejects(collectBlobs(later, blobs, { signal }), isTold, key);
    await store.transact({ then: [before === undefined ? { delete: key } : { put: key, value: before.value }] });
    assert.deepEqual(await isThere(), [true, true, true], key);
  }
  await collectBlobs(later, blobs, { signal });
  assert.deepEqual(await isThere(), [true, true, false]);
});

test('one record that cannot be read is told at once, and no more once it can be; a release is deleted meanwhile', async () => {
  await using world = await startTestController();
  await using blobStore = await startTestBlobs();
  const { blobs } = blobStore;
  const { client, store, deps } = world;
  const findings = async () => collectionCheck(deps).find(signal);
  await client.call(apps.create, { body: { name: 'shop' } });
  const params = { app: 'shop' };
  const artifact = { type: 'image' as const, image: { name: 'test/image' } };
  const { id: artifactId } = await client.call(releases.createArtifact, { body: artifact });
  await client.call(releases.create, { params, body: { artifactId, processes: {} } });
  const broken = resourceKey(releaseType.name, 'broken');
  await store.transact({ then: [{ put: broken, value: 'sealed with a key that is gone' }] });
  await assert.rejects(collectAll(deps, blobs, { signal }), isUnreadable);
  await assert.rejects(collectArtifacts(deps, new Set([artifactId]), { signal }), isUnreadable);
  const [found, ...more] = await findings();
  assert.deepEqual([found?.severity, found?.subject, more], ['warning', 'collection', []]);
  assert.match(found?.what ?? '', /release\/broken cannot be read/);
  await client.call(releases.remove, { params: { ...params, release: 'v1' } });
  await deps.resources.get(artifactType, artifactId);
  await store.transact({ then: [{ delete: broken }] });
  await collectAll(deps, blobs, { signal });
  assert.deepEqual(await findings(), []);
});

test('a record that stays unreadable is given up by its key, with its name, and is in the trail; what can be read is not', async () => {
  await using blobStore = await startTestBlobs();
  await using world = await startTestController({ blobStoreUrl: blobStore.url });
  const { client, store } = world;
  const { id: appId } = await client.call(apps.create, { body: { name: 'shop' } });
  const params = { app: 'shop' };
  const artifact = { type: 'image' as const, image: { name: 'test/image' } };
  const { id: artifactId } = await client.call(releases.createArtifact, { body: artifact });
  const { id } = await client.call(releases.create, { params, body: { artifactId, processes: {} } });
  await client.call(releases.create, { params, body: { artifactId, processes: {} } });
  const key = resourceKey(releaseType.name, id);
  const forget = (what: string) => client.call(collections.forget, { body: { key: what } });
  await assert.rejects(forget(key), { code: 'conflict', message: /can be read/ });
  await store.transact({ then: [{ put: key, value: 'damaged' }] });
  await assert.rejects(client.call(collections.run, {}), { code: 'internal', message: /cannot be read/ });
  for (const other of [
    '/flynn/collection',
    `${key}/more`,
    resourceKey(releaseType.name, ''),
    resourceKey(appType.name, appId),
  ]) {
    await assert.rejects(forget(other), (error) => hasCode(error, 'invalid', 'not_found'), other);
  }
  await forget(key);
  await assert.rejects(forget(key), { code: 'not_found' });
  await client.call(collections.run, {});
  const left = await client.call(releases.list, { params });
  assert.deepEqual(
    left.map(({ version }) => version),
    [2],
  );
  const names = (await store.list(nameKey(releaseType.name, ''))).entries.map(({ value }) => value);
  assert.ok(!names.includes(id), 'its name is free');
  assert.equal((await store.get(resourceKey(appType.name, appId))) === undefined, false);
  const { entries } = await store.list('/flynn-audit/');
  assert.ok(entries.some(({ value }) => value.includes('/collections/unreadable') && value.includes(id)));
});

test('what an app runs is not given up, nor what that is made of', async () => {
  await using blobStore = await startTestBlobs();
  await using world = await startTestController({ blobStoreUrl: blobStore.url });
  const { client, store } = world;
  const { id, artifactId } = await liveRelease(world);
  for (const key of [resourceKey(artifactType.name, artifactId), resourceKey(releaseType.name, id)]) {
    const before = await store.get(key);
    await store.transact({ then: [{ put: key, value: 'damaged' }] });
    const forgotten = client.call(collections.forget, { body: { key } });
    await assert.rejects(forgotten, { code: 'conflict', message: /^shop runs of it.*or delete shop$/ });
    await store.transact({ then: [{ put: key, value: before?.value ?? '' }] });
  }
});

test('what only an app runs that is being deleted is given up', async () => {
  await using world = await startTestController({ hosts: 0, hasWorker: false });
  const { client, store, deps } = world;
  const { id: appId } = await client.call(apps.create, { body: { name: 'shop' } });
  const artifact = { type: 'image' as const, image: { name: 'test/image' } };
  const { id: artifactId } = await client.call(releases.createArtifact, { body: artifact });
  const body = { artifactId, processes: { web: {} } };
  const { id } = await client.call(releases.create, { params: { app: 'shop' }, body });
  await deps.resources.updateStatus(appType, appId, ({ status }) => ({ ...status, releaseId: id }), { signal });
  await deps.resources.delete(appType, appId, { signal });
  // The second says of nobody that it is theirs.
  for (const key of [resourceKey(artifactType.name, artifactId), resourceKey(releaseType.name, id)]) {
    await store.transact({ then: [{ put: key, value: 'damaged' }] });
    await client.call(collections.forget, { body: { key } });
    assert.equal(await store.get(key), undefined);
  }
});

test('an app that is deleted waits for what of it cannot be read, names what gives that up, and goes then', async () => {
  await using blobStore = await startTestBlobs();
  await using world = await startTestController({ blobStoreUrl: blobStore.url, hasWorker: false });
  const { client, store, deps } = world;
  const { resources } = deps;
  const { id: appId } = await client.call(apps.create, { body: { name: 'shop' } });
  const owner = ownedBy(appId);
  const artifact = { type: 'image' as const, image: { name: 'test/image' } };
  const { id: artifactId } = await client.call(releases.createArtifact, { body: artifact });
  const body = { artifactId, processes: { web: {} } };
  const { id } = await client.call(releases.create, { params: { app: 'shop' }, body });
  await resources.updateStatus(appType, appId, ({ status }) => ({ ...status, releaseId: id }), { signal });
  const grant = await resources.create(grantType, {
    owner,
    spec: { appId, kind: 'user', subjectId: 'u1', role: 'viewer' },
  });
  const drain = await resources.create(drainType, { owner, spec: { appId, url: 'syslog://logs.example.com:514' } });
  const counts = { counts: { web: 1 }, oldCounts: {}, knownJobs: [], timeoutMs: 1_000 };
  const deployment = await resources.create(deploymentType, { owner, spec: { appId, newReleaseId: id, ...counts } });
  const [route] = await resources.list(routeType, { owner, signal });
  assert.ok(route !== undefined);
  const ofApp = [
    resourceKey(drainType.name, drain.id),
    resourceKey(deploymentType.name, deployment.id),
    resourceKey(routeType.name, route.id),
    resourceKey(grantType.name, grant.id),
  ];
  const keys = [...ofApp, resourceKey(releaseType.name, id)];
  for (const key of keys) {
    const { value = '' } = (await store.get(key)) ?? {};
    await store.transact({ then: [{ put: key, value: JSON.stringify({ ...JSON.parse(value), version: 99 }) }] });
  }
  const forget = (key: string) => client.call(collections.forget, { body: { key } });
  for (const key of ofApp) {
    await assert.rejects(forget(key), { code: 'conflict', message: /not being deleted.*or delete the app/ }, key);
  }
  await resources.delete(appType, appId, { signal });
  await store.transact({ then: [{ put: 'seat', value: '1' }] });
  const epoch = { key: 'seat', modRevision: (await store.get('seat'))?.modRevision ?? 0 };
  const named = new Set<string>();
  for (let looks = 0; looks < keys.length; looks += 1) {
    await assert.rejects(stepDeletion(deps, appId, { signal, epoch }), isUnreadable);
    const { waitingFor } = await resources.get(appType, appId);
    const [, key = ''] = / cannot be read: .*flynn gc --forget (\S+) /.exec(waitingFor[appFinalizer] ?? '') ?? [];
    named.add(key);
    await forget(key);
  }
  assert.deepEqual(named, new Set(keys));
  await stepDeletion(deps, appId, { signal, epoch });
  assert.equal(await resources.find(appType, appId), undefined);
  assert.deepEqual((await store.list(nameKey(routeType.name, ''))).entries, [], 'its address is free');
  await client.call(apps.create, { body: { name: 'shop' } });
});

test('what cannot be read of something that is gone is given up; what says of nobody that it is theirs is not', async () => {
  await using world = await startTestController({ hosts: 0, hasWorker: false });
  const { client, store, deps } = world;
  const { id: appId } = await client.call(apps.create, { body: { name: 'shop' } });
  const { id } = await deps.resources.create(drainType, {
    owner: ownedBy(appId),
    spec: { url: 'syslog://logs.example.com:514' },
  });
  const key = resourceKey(drainType.name, id);
  const { value = '' } = (await store.get(key)) ?? {};
  const forget = () => client.call(collections.forget, { body: { key } });
  await store.transact({ then: [{ put: key, value: 'damaged' }] });
  await assert.rejects(forget(), { code: 'conflict', message: /does not say whose it is/ });
  await store.transact({ then: [{ put: key, value: JSON.stringify({ ...JSON.parse(value), version: 99 }) }] });
  await assert.rejects(forget(), { code: 'conflict', message: /not being deleted/ });
  await store.transact({ then: [{ delete: resourceKey(appType.name, appId) }] });
  await forget();
  assert.equal(await store.get(key), undefined);
});

test('nothing is given up while it cannot be told whether an app runs of it', async () => {
  await using blobStore = await startTestBlobs();
  await using world = await startTestController({ blobStoreUrl: blobStore.url });
  const { client, store } = world;
  const { id, appId, artifactId } = await liveRelease(world);
  const [app, release, made] = [
    resourceKey(appType.name, appId),
    resourceKey(releaseType.name, id),
    resourceKey(artifactType.name, artifactId),
  ];
  // First the release, whose app nobody can read; then what the release is made of, as nobody can read it either.
  for (const [hidden, given] of [
    [app, release],
    [release, made],
  ] as const) {
    const before = await Promise.all(
      [hidden, given].map(async (key) => ({ key, value: (await store.get(key))?.value })),
    );
    for (const { key } of before) await store.transact({ then: [{ put: key, value: 'damaged' }] });
    const forgotten = client.call(collections.forget, { body: { key: given } });
    await assert.rejects(forgotten, (error) => hasCode(error, 'conflict') && String(error).includes(hidden), given);
    for (const { key, value = '' } of before) await store.transact({ then: [{ put: key, value }] });
  }
});

test('of an app whose live release nobody can read, another one still runs jobs', async () => {
  await using blobStore = await startTestBlobs();
  await using world = await startTestController({ blobStoreUrl: blobStore.url });
  const { client, store } = world;
  const { id, artifactId } = await liveRelease(world);
  const params = { app: 'shop' };
  const other = await client.call(releases.create, { params, body: { artifactId, processes: { web: {} } } });
  await store.transact({ then: [{ put: resourceKey(releaseType.name, id), value: 'damaged' }] });
  await client.call(jobs.run, { params, body: { command: ['true'], releaseId: other.id } });
});

test('an operation that is given up keeps its app from nothing', async () => {
  await using world = await startTestController();
  const { client, store } = world;
  const key = resourceKey(operationType.name, 'broken');
  const lock = operationLock('a1');
  await store.transact({
    then: [
      { put: key, value: 'damaged' },
      { put: lock, value: '"broken"' },
      { put: operationLock('a2'), value: '"another"' },
    ],
  });
  await client.call(collections.forget, { body: { key } });
  assert.equal(await store.get(lock), undefined);
  assert.ok((await store.get(operationLock('a2'))) !== undefined);
});

test('what waits for an operation that cannot be read begins neither while it is so, nor in a controller that starts then', async () => {
  await using world = await startTestController({ hasWorker: false });
  const { client, store, deps } = world;
  await newApp(client, 'shop');
  await create(client, 'shop', { id: 'first' }, { id: 'after', dependsOn: ['first'] }, { id: 'other' });
  const runner = await join(world, 'r1');
  const key = resourceKey(operationType.name, 'first');
  const before = await store.get(key);
  const { revision } = await store.transact({ then: [{ put: key, value: 'damaged' }] });
  await deps.operations.reached(revision);
  await using started = await openOperations({ ...deps, log: silentLogger() });
  const taker = { id: 'r1', labels: {}, isByIdOnly: false };
  for (const queue of [deps.queue, started.parts.queue]) {
    assert.match(queue.whyWaits('after', [taker]) ?? '', /^first, whose record cannot be read/);
  }
  assert.deepEqual(
    (await runner.assignments(5)).map(({ id }) => id),
    ['other'],
  );
  await runner.report({ begun: [{ id: 'other', attempt: 1 }] });
  await runner.report({ ended: [{ id: 'other', state: 'complete' }] });
  const restored = await store.transact({ then: [{ put: key, value: before?.value ?? '' }] });
  await deps.operations.reached(restored.revision);
  assert.deepEqual(
    (await runner.assignments(5)).map(({ id }) => id),
    ['first'],
  );
});

test('what waits for an operation that is given up does not begin as if that had gone well', async () => {
  await using world = await startTestController({ hasWorker: false });
  const { client, store, deps } = world;
  await newApp(client, 'shop');
  await create(
    client,
    'shop',
    { id: 'first' },
    { id: 'after', dependsOn: ['first'] },
    { id: 'last', dependsOn: ['after'] },
    { id: 'despite', dependsOn: ['first'], mayFail: ['first'] },
  );
  const key = resourceKey(operationType.name, 'first');
  const { revision } = await store.transact({ then: [{ put: key, value: 'damaged' }] });
  await deps.operations.reached(revision);
  await client.call(collections.forget, { body: { key } });
  const states = await Promise.all(['after', 'last', 'despite'].map((id) => get(client, id)));
  assert.deepEqual(
    states.map(({ state }) => state),
    ['cancelled', 'cancelled', 'queued'],
  );
  assert.equal(states[0]?.error, 'the operation before it was given up');
});
