/** What nothing refers to goes, and nothing else, against a whole controller and a real blob store. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { resourceKey } from '@flynn/resource/keys';
import { ResourceService } from '@flynn/resource/service';
import { createMemoryStore } from '@flynn/store/memory';
import { apps, deployments, formations, releases } from '../api.ts';
import { blobGraceMs, collectBlobs } from './blob-collection.ts';
import { collectArtifacts, collectReleases } from './collection.ts';
import type { Release } from '../model.ts';
import { create, join, newApp } from '../operations/lifecycle-fixture.ts';
import { artifactType } from '../resources.ts';
import { startTestBlobs } from '../testing/blobs.ts';
import { beforeWrite } from '../testing/race-fixture.ts';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';

const signal = new AbortController().signal;

async function makeArtifact({ client }: TestController, digests: string[]): Promise<string> {
  const image = { base: 'slug-runner', layers: digests.map((digest) => ({ digest, sizeBytes: 1 })) };
  return (await client.call(releases.createArtifact, { body: { type: 'slug', image } })).id;
}

const makeRelease = ({ client }: TestController, app: string, artifactId: string): Promise<Release> =>
  client.call(releases.create, { params: { app }, body: { artifactId, processes: { web: {} } } });

const versions = async ({ client }: TestController, app: string) =>
  (await client.call(releases.list, { params: { app } })).map(({ version }) => version);

/** The controller as it will be: everything is older then. */
const later = ({ deps }: TestController, ms: number) => ({ ...deps, now: () => Date.now() + ms });

test('an app keeps its newest slugs; what is left can all be gone back to; shared layers survive', async () => {
  await using world = await startTestController();
  await using store = await startTestBlobs();
  const { blobs } = store;
  await world.client.call(apps.create, { body: { name: 'shop', meta: { 'gc.max_inactive_slug_releases': '2' } } });
  const shared = await blobs.put('runtime');
  const layers = await Promise.all([1, 2, 3, 4, 5].map((number) => blobs.put(`app ${number}`)));
  for (const layer of layers) {
    const release = await makeRelease(world, 'shop', await makeArtifact(world, [shared.digest, layer.digest]));
    assert.equal((await world.deploy('shop', release.id)).state, 'complete');
  }
  assert.equal(await collectReleases(world.deps, { signal }), 0, 'what was just made stays');
  assert.equal(await collectReleases(later(world, 2 * 3_600_000), { signal }), 2);
  assert.deepEqual(await versions(world, 'shop'), [5, 4, 3]);
  const orphan = await blobs.put('nobody has this');
  assert.equal((await collectBlobs(world.deps, blobs, { signal })).blobs, 0, 'what was used a moment ago stays');
  const collected = await collectBlobs(later(world, blobGraceMs + 60_000), blobs, { signal });
  assert.equal(collected.blobs, 3);
  const left = new Set((await Array.fromAsync(blobs.list())).map(({ digest }) => digest));
  assert.deepEqual(
    [shared, ...layers, orphan].map(({ digest }) => left.has(digest)),
    [true, false, false, true, true, true, false],
  );
  const oldest = await world.client.call(releases.get, { params: { app: 'shop', release: 'v3' } });
  assert.equal((await world.deploy('shop', oldest.id)).state, 'complete');
});

/** An app that keeps one slug, with `count` releases that were deployed. */
async function makeOld(world: TestController, name: string, count: number): Promise<void> {
  const { client } = world;
  await client.call(apps.create, { body: { name, meta: { 'gc.max_inactive_slug_releases': '1' } } });
  for (let made = 0; made < count; made += 1) {
    const release = await makeRelease(world, name, await makeArtifact(world, []));
    assert.equal((await world.deploy(name, release.id)).state, 'complete');
  }
}

test('a round goes through all deployments once, however many apps there are', async () => {
  await using world = await startTestController();
  for (const name of ['one', 'two', 'three']) await makeOld(world, name, 3);
  let looks = 0;
  const counted = new Proxy(world.deps.deployments, {
    get(mirror, property) {
      if (property === 'snapshot') looks += 1;
      const value: unknown = Reflect.get(mirror, property, mirror);
      return value;
    },
  });
  const deps = { ...later(world, 2 * 3_600_000), deployments: counted };
  assert.equal(await collectReleases(deps, { signal }), 3);
  assert.equal(looks, 1);
});

test('of an app that something is deployed of since the round began nothing goes', async (t) => {
  await using world = await startTestController();
  await makeOld(world, 'shop', 4);
  // Of its own: the worker looks for things too.
  const resources = new ResourceService({ ...world.deps });
  const find = resources.find.bind(resources);
  const releaseId = (await world.client.call(releases.get, { params: { app: 'shop', release: 'v2' } })).id;
  let begun = '';
  const finding = t.mock.method(resources, 'find', async (...asked: Parameters<typeof find>) => {
    finding.mock.restore();
    const { id } = await world.client.call(deployments.create, { params: { app: 'shop' }, body: { releaseId } });
    begun = id;
    return find(...asked);
  });
  assert.equal(await collectReleases({ ...later(world, 2 * 3_600_000), resources }, { signal }), 0);
  assert.equal((await world.endOf(begun)).state, 'complete');
  assert.deepEqual(await versions(world, 'shop'), [4, 3, 2, 1]);
});

test('a whole image keeps its configuration, its layers and the record it is deployed again by', async () => {
  await using world = await startTestController();
  await using store = await startTestBlobs();
  const { blobs } = store;
  await world.client.call(apps.create, { body: { name: 'shop' } });
  const [config, layer, result, orphan] = await Promise.all(
    ['config', 'layer', 'result', 'orphan'].map((name) => blobs.put(name)),
  );
  assert.ok(config !== undefined && layer !== undefined && result !== undefined && orphan !== undefined);
  const body = { type: 'image' as const, image: { config, layers: [layer] }, meta: { result: result.digest } };
  const artifact = await world.client.call(releases.createArtifact, { body });
  await world.client.call(releases.create, {
    params: { app: 'shop' },
    body: { artifactId: artifact.id, processes: { web: {} } },
  });
  assert.equal((await collectBlobs(later(world, blobGraceMs + 60_000), blobs, { signal })).blobs, 1);
  const left = (await Array.fromAsync(blobs.list())).map(({ digest }) => digest);
  assert.deepEqual(new Set(left), new Set([config.digest, layer.digest, result.digest]));
});

test('names of builds and apps that are gone, and of what was brought, go with what they point to, other names stay', async () => {
  await using world = await startTestController();
  await using store = await startTestBlobs();
  const { blobs } = store;
  const app = await world.client.call(apps.create, { body: { name: 'shop' } });
  const names = ['builds/gone', 'cache/gone', 'layers/gone', 'brought/user/u1/00', `cache/${app.id}`, 'backups/one'];
  for (const name of names) await blobs.putName(name, (await blobs.put(name)).digest);
  const collected = await collectBlobs(later(world, blobGraceMs + 60_000), blobs, { signal });
  assert.deepEqual([collected.names, collected.blobs], [4, 4]);
  const left = (await Array.fromAsync(blobs.listNames())).map(({ name }) => name);
  assert.deepEqual(left, ['backups/one', `cache/${app.id}`].sort());
});

test('what was built, or brought, stays whole as long as its release waits to be made', async () => {
  await using world = await startTestController({ hasWorker: false });
  await using store = await startTestBlobs();
  const { blobs } = store;
  await newApp(world.client, 'shop');
  const record = async (layer: string, config?: string) => {
    const image = config === undefined ? {} : { image: { config: await blobs.put(config), hasCommand: true } };
    const layers = [await blobs.put(layer)];
    return blobs.put(JSON.stringify({ layers, ...image, sizeBytes: 1, processTypes: {}, buildpack: 'x' }));
  };
  await blobs.putName('builds/build', (await record('built')).digest);
  const brought = await record('brought', 'configuration');
  await blobs.putName('builds/torn', (await blobs.put('no record')).digest);
  await record('of nobody');
  const imported = await record('imported');
  await create(world.client, 'shop', { id: 'import' });
  const runner = await join(world, 'r1');
  await runner.claim();
  await runner.finish('import', 'complete', { output: { resultDigest: imported.digest } });
  await create(
    world.client,
    'shop',
    { id: 'release', kind: 'release', dependsOn: ['build'] },
    { id: 'build' },
    { id: 'image', kind: 'release', input: { resultDigest: brought.digest } },
    { id: 'of-import', kind: 'release', dependsOn: ['import'] },
  );
  const collected = await collectBlobs(later(world, blobGraceMs + 60_000), blobs, { signal });
  assert.deepEqual([collected.blobs, collected.names], [3, 1], 'the two of nobody, and what is torn');
  const left = new Set((await Array.fromAsync(blobs.list())).map(({ digest }) => digest));
  for (const kept of ['built', 'brought', 'configuration', 'imported'])
    assert.ok(left.has((await blobs.put(kept)).digest), kept);
});

test('an artifact that is about to go makes no release, and one that a release has stays', async () => {
  await using world = await startTestController();
  await world.client.call(apps.create, { body: { name: 'shop' } });
  const unused = await makeArtifact(world, []);
  const used = await makeArtifact(world, []);
  await makeRelease(world, 'shop', used);
  assert.equal(await collectArtifacts(world.deps, undefined, { signal }), 0, 'new ones stay');
  await world.deps.resources.updateStatus(artifactType, unused, () => ({ condemnedAt: 'now' }), { signal });
  await assert.rejects(
    makeRelease(world, 'shop', unused),
    (error: unknown) => hasCode(error, 'conflict') && /is being removed/.test(error.message),
  );
  assert.equal(await collectArtifacts(later(world, 2 * 3_600_000), undefined, { signal }), 1);
  await world.client.call(releases.getArtifact, { params: { artifact: used } });
  await assert.rejects(world.client.call(releases.getArtifact, { params: { artifact: unused } }), (error: unknown) =>
    hasCode(error, 'not_found'),
  );
});

test('releases made while artifacts are collected keep theirs', async () => {
  await using world = await startTestController();
  await world.client.call(apps.create, { body: { name: 'shop' } });
  const artifacts = await Promise.all(Array.from({ length: 12 }, () => makeArtifact(world, [])));
  const collecting = collectArtifacts(later(world, 2 * 3_600_000), undefined, { signal });
  const made = await Promise.allSettled(artifacts.map((id) => makeRelease(world, 'shop', id)));
  await collecting;
  for (const outcome of made) {
    if (outcome.status === 'rejected')
      assert.ok(hasCode(outcome.reason, 'conflict', 'not_found'), String(outcome.reason));
    else {
      const { artifactId = '' } = outcome.value;
      await world.client.call(releases.getArtifact, { params: { artifact: artifactId } });
    }
  }
});

test('a release is deleted with its slug and counts, but not while it is live', async () => {
  await using world = await startTestController();
  const { release: live } = await world.deployApp('shop', { web: {} });
  const artifactId = await makeArtifact(world, []);
  const other = await makeRelease(world, 'shop', artifactId);
  await world.client.call(formations.put, {
    params: { app: 'shop', release: other.id },
    body: { processes: { web: 2 } },
  });
  const remove = (release: string) => world.client.call(releases.remove, { params: { app: 'shop', release } });
  await assert.rejects(
    remove(live.id),
    (error: unknown) => hasCode(error, 'conflict') && /v1 is live/.test(error.message),
  );
  await remove('v2');
  await assert.rejects(remove('v2'), (error: unknown) => hasCode(error, 'not_found'));
  const left = (await world.store.list('/flynn/')).entries.map(({ key }) => key);
  assert.deepEqual(
    left.filter((key) => key.includes(other.id) || key.includes(artifactId)),
    [],
  );
});

test('of a deployment under way neither release is deleted; any other is, also while the app is changed', async () => {
  const store = createMemoryStore();
  await using world = await startTestController({ store });
  const { release: live } = await world.deployApp('shop', { web: {} });
  const params = { app: 'shop' };
  const [next, other] = [await world.makeRelease('shop', { web: {} }), await world.makeRelease('shop', { web: {} })];
  world.setBehaviour(() => ({ is: 'hang' }));
  await world.client.call(deployments.create, { params, body: { releaseId: next.id } });
  const remove = (release: string) => world.client.call(releases.remove, { params: { ...params, release } });
  const isInIt = (error: unknown) => hasCode(error, 'conflict') && /v2 is in a deployment of shop/.test(error.message);
  await assert.rejects(remove(next.id), isInIt);
  await assert.rejects(remove(live.id), { code: 'conflict' });
  beforeWrite(store, resourceKey('release', other.id), () =>
    world.client.call(apps.update, { params, body: { meta: { note: 'changed' } } }),
  );
  await remove(other.id);
  const left = await world.client.call(releases.list, { params });
  assert.deepEqual(new Set(left.map(({ id }) => id)), new Set([live.id, next.id]));
});
