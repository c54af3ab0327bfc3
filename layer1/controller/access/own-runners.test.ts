/** What a runner outside of the cluster may do: what it needs for the operations that it holds, while it holds them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { apps, jobs, releases } from '../api.ts';
import { resultMeta } from '../images/image-blobs.ts';
import { operations } from '../operations/api.ts';
import { platform } from '../platform/api.ts';
import { createControllerClient } from '../client.ts';
import { create, newApp } from '../operations/lifecycle-fixture.ts';
import { runnerBlobs } from '../operations/api-runner-blobs.ts';
import { runners } from '../operations/api-runners.ts';
import { platformRunnerToken, runnerCredential } from '../operations/runner-token.ts';
import { TestRunner } from '../operations/test-runner.ts';
import { startTestController, type TestController } from '../testing.ts';
import { startTestBlobs } from '../testing/blobs.ts';

const isError = (code: 'denied' | 'unauthenticated' | 'conflict' | 'invalid', pattern: RegExp) => (error: unknown) =>
  hasCode(error, code) && pattern.test(error.message);

async function added(world: TestController, id: string) {
  const { token } = await world.client.call(runners.add, { params: { runner: id }, body: { labels: { zone: 'a' } } });
  const client = createControllerClient({ baseUrl: world.url, key: runnerCredential(id, token) });
  const runner = new TestRunner({ client, id, token, labels: { zone: 'a' } });
  return { token, client, runner, [Symbol.asyncDispose]: () => client.close() };
}

test('it reads and stores for the apps of which it holds an operation, and no longer than it holds it', async () => {
  await using blobs = await startTestBlobs();
  await using world = await startTestController({ hasWorker: false, blobStoreUrl: blobs.url });
  for (const name of ['shop', 'other']) await newApp(world.client, name);
  await using own = await added(world, 'office');
  const { client, runner } = own;
  assert.equal((await runner.register()).state, 'adopted', 'it was added for what it is');
  const params = { app: 'shop' };
  const nothing = isError('denied', /runner office holds no operation that needs this/);
  await assert.rejects(client.call(releases.list, { params }), nothing);
  const idle = isError('denied', /runner office has no operation to read or store anything for/);
  await assert.rejects(client.call(runnerBlobs.put, { params: { runner: 'office' }, query: {}, body: 'x' }), idle);

  const [made] = await create(world.client, 'shop', {});
  const held = await runner.claim();
  assert.equal(held.id, made?.id);
  assert.equal((await client.call(apps.get, { params })).name, 'shop');
  assert.deepEqual(await client.call(releases.list, { params }), []);
  await assert.rejects(client.call(releases.list, { params: { app: 'other' } }), nothing);
  const stored = await client.call(runnerBlobs.put, { params: { runner: 'office' }, query: {}, body: 'bytes' });
  const blob = { runner: 'office', digest: stored.digest };
  assert.deepEqual(await client.call(runnerBlobs.stat, { params: blob }), stored);
  assert.equal(String(await (await client.stream(runnerBlobs.get, { params: blob })).toArray()), 'bytes');
  const named = { params: { runner: 'office' }, query: { name: `builds/${held.id}` } };
  await assert.rejects(client.call(runnerBlobs.named, named), (error) => hasCode(error, 'not_found'));
  await blobs.blobs.putName(named.query.name, stored.digest);
  assert.deepEqual(await client.call(runnerBlobs.named, named), stored);

  await runner.report({ ended: [{ id: held.id, state: 'complete' }] });
  // The watch tells of it.
  await waitFor(() => world.deps.queue.heldBy('office').size === 0, { what: 'the end', deadlineMs: 30_000 });
  await assert.rejects(client.call(apps.get, { params }), nothing);
  await assert.rejects(client.call(runnerBlobs.stat, { params: blob }), idle);
  assert.equal((await client.call(platform.cluster, {})).name, 'test');
});

test('what it asks for of an operation that is known to be its own does not cost reading all operations', async () => {
  await using blobs = await startTestBlobs();
  await using world = await startTestController({ hasWorker: false, blobStoreUrl: blobs.url });
  await newApp(world.client, 'shop');
  await using own = await added(world, 'office');
  const { client, runner } = own;
  await runner.register();
  await create(world.client, 'shop', {});
  const held = await runner.claim();
  const { digest } = await client.call(runnerBlobs.put, { params: { runner: 'office' }, query: {}, body: 'bytes' });
  await blobs.blobs.putName(`builds/${held.id}`, digest);
  await waitFor(() => world.deps.queue.heldBy('office').size === 1, { what: 'the claim', deadlineMs: 30_000 });
  const lists: string[] = [];
  const list = world.store.list.bind(world.store);
  world.store.list = (prefix, options) => {
    lists.push(prefix);
    return list(prefix, options);
  };
  const blob = { runner: 'office', digest };
  await client.call(runnerBlobs.stat, { params: blob });
  await (await client.stream(runnerBlobs.get, { params: blob })).toArray();
  await client.call(runnerBlobs.named, { params: { runner: 'office' }, query: { name: `builds/${held.id}` } });
  const ofOperations = () => lists.filter((prefix) => prefix.startsWith('/flynn/resource/operation/')).length;
  assert.equal(ofOperations(), 0);
  const unknown = { runner: 'office', digest: `sha256:${'0'.repeat(64)}` };
  await assert.rejects(client.call(runnerBlobs.stat, { params: unknown }), (error) => hasCode(error, 'not_found'));
  assert.ok(ofOperations() > 0, 'before it is told no, they are');
});

test('it is nobody but itself, what runners have no business with is closed to it, and forgotten it is nobody', async () => {
  await using world = await startTestController({ hasWorker: false });
  await newApp(world.client, 'shop');
  await using own = await added(world, 'office');
  await using second = await added(world, 'second');
  const asOther = new TestRunner({ client: own.client, id: 'second', token: second.token });
  await assert.rejects(asOther.register(), isError('denied', /runner office cannot act as runner second/));
  await assert.rejects(own.client.call(apps.list, {}), isError('denied', /not for the platform's own runner office/));
  await assert.rejects(
    own.client.call(runners.add, { params: { runner: 'third' }, body: {} }),
    isError('denied', /not for/),
  );
  const again = world.client.call(runners.add, { params: { runner: 'office' }, body: {} });
  await assert.rejects(again, isError('conflict', /there is a runner office already: .*"flynn runner forget office"/));
  const misnamed = world.client.call(runners.add, { params: { runner: 'a b' }, body: {} });
  await assert.rejects(misnamed, isError('invalid', /"a b" is no name for a runner/));

  const unknown = isError('unauthenticated', /runner \w+ is not known here, .*: flynn runner add \w+/);
  const strangers = [
    ['office', second.token],
    ['nobody', own.token],
    ['platform', platformRunnerToken(world.key, 'platform')],
  ] as const;
  await new TestRunner({ client: world.client, id: 'platform', clusterKey: world.key }).register();
  for (const [id, token] of strangers) {
    await using client = createControllerClient({ baseUrl: world.url, key: runnerCredential(id, token) });
    await assert.rejects(client.call(platform.cluster, {}), unknown, id);
  }
  await world.client.call(runners.forget, { params: { runner: 'office' } });
  await assert.rejects(own.client.call(platform.cluster, {}), unknown);
});

test('with other labels than it was added with it waits to be adopted', async () => {
  await using world = await startTestController({ hasWorker: false });
  await using own = await added(world, 'office');
  const other = new TestRunner({ client: own.client, id: 'office', token: own.token, labels: { zone: 'b' } });
  assert.equal((await other.register()).state, 'pending');
});

test('of another app it reads, makes and reports nothing, whose digests and ids it knows and whoever asked for what it holds', async () => {
  await using blobs = await startTestBlobs();
  await using world = await startTestController({ hasWorker: false, blobStoreUrl: blobs.url });
  for (const name of ['shop', 'other']) await newApp(world.client, name);
  const { digest } = await blobs.blobs.put('code of other');
  const image = { base: 'slug-runner', layers: [{ digest, sizeBytes: 13 }] };
  const { id: artifact } = await world.client.call(releases.createArtifact, { body: { type: 'slug', image } });
  const release = { artifactId: artifact, processes: { web: {} } };
  await world.client.call(releases.create, { params: { app: 'other' }, body: release });
  const [elsewhere] = await create(world.client, 'other', {});
  await blobs.blobs.putName(`builds/${elsewhere?.id}`, digest);
  await world.client.call(operations.cancel, { params: { operation: elsewhere?.id ?? '' }, body: {} });
  await using own = await added(world, 'office');
  const { client, runner } = own;
  await runner.register();
  await create(world.client, 'shop', { input: { sourceDigest: (await blobs.blobs.put('source')).digest } });
  const held = await runner.claim();
  const params = { runner: 'office', digest };
  const build = { operationId: held.id, sourceDigest: digest, commit: 'c', kind: 'slug' } as const;
  const refused = {
    'reading it': () => client.stream(runnerBlobs.get, { params }),
    'looking at it': () => client.call(runnerBlobs.stat, { params }),
    'its name': () => client.call(runnerBlobs.named, { params, query: { name: `builds/${elsewhere?.id}` } }),
    'its artifact': () => client.call(releases.getArtifact, { params: { artifact } }),
    'an artifact': () => client.call(releases.createArtifact, { body: { type: 'slug', image } }),
    'a release': () => client.call(releases.create, { params: { app: 'shop' }, body: release }),
    'a build': () => client.call(jobs.build, { params: { app: 'shop' }, body: build }),
  };
  for (const [what, asked] of Object.entries(refused)) {
    await assert.rejects(asked(), (error) => hasCode(error, 'not_found', 'denied'), what);
  }
  const source = { runner: 'office', digest: held.input.sourceDigest ?? '' };
  assert.equal(String(await (await client.stream(runnerBlobs.get, { params: source })).toArray()), 'source');
  const output = { resultDigest: digest };
  await runner.report({ ended: [{ id: held.id, state: 'complete', output }] });
  const ended = await world.client.call(operations.get, { params: { operation: held.id } });
  assert.deepEqual([ended.state, ended.output], ['failed', {}]);
  assert.match(ended.error ?? '', /reported sha256:.*, which nobody stored for it today/);
});

test('what one runner stored for an app another makes an artifact and a release of', async () => {
  await using blobs = await startTestBlobs();
  await using world = await startTestController({ hasWorker: false, blobStoreUrl: blobs.url });
  await newApp(world.client, 'shop');
  await using first = await added(world, 'office');
  await using second = await added(world, 'second');
  for (const { runner } of [first, second]) await runner.register();
  const chain = [
    { id: 'one', kind: 'build' as const, input: {}, target: { runnerId: 'office' } },
    { id: 'two', kind: 'release' as const, input: {}, dependsOn: ['one'], target: { runnerId: 'second' } },
  ];
  await world.client.call(operations.create, { params: { app: 'shop' }, body: { operations: chain } });
  const build = await first.runner.claim();
  const put = (text: string) =>
    first.client.call(runnerBlobs.put, { params: { runner: 'office' }, query: {}, body: text });
  const layer = await put('layer');
  const left = { layers: [layer], sizeBytes: 5, processTypes: { web: 'x' }, buildpack: 'image', meta: {} };
  const record = await put(JSON.stringify(left));
  await first.runner.report({ ended: [{ id: build.id, state: 'complete', output: { resultDigest: record.digest } }] });
  await second.runner.claim();
  const params = { runner: 'second', digest: record.digest };
  assert.deepEqual(JSON.parse(String(await (await second.client.stream(runnerBlobs.get, { params })).toArray())), left);
  const image = { base: 'slug-runner', layers: [layer] };
  const meta = { [resultMeta]: record.digest };
  const { id } = await second.client.call(releases.createArtifact, { body: { type: 'slug', image, meta } });
  const body = { artifactId: id, processes: { web: {} } };
  await second.client.call(releases.create, { params: { app: 'shop' }, body });
});
