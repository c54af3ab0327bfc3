/** What a runner outside of the cluster may do: what it needs for the operations that it holds, while it holds them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { apps, releases } from '../api.ts';
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
