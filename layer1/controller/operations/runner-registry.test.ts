/** Who is given what: runners by name, label and room, adopted, rejected, gone and begun anew. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { createMemoryStore } from '@flynn/store/memory';
import { operations } from './api.ts';
import { runners } from './api-runners.ts';
import { forgetGoneRunners, forgetMs } from './runner-registry.ts';
import { TestRunner } from './test-runner.ts';
import { startTestController } from '../testing.ts';
import { slowlyTold } from '../testing/slow-watch.ts';
import { join, newApp, create, get, whenTold } from './lifecycle-fixture.ts';

test('operations go to the runners they name, by id or by labels', async () => {
  await using world = await startTestController({ hasWorker: false });
  const { client } = world;
  for (const name of ['a', 'b', 'c']) await newApp(client, name);
  const plain = await join(world, 'plain');
  const gpu = await join(world, 'gpu', { labels: { gpu: 'yes', zone: 'a' } });
  const own = await join(world, 'own', { isByIdOnly: true });
  await create(client, 'a', { id: 'labelled', target: { labels: { gpu: 'yes', zone: 'a' } } });
  await create(client, 'b', { id: 'named', target: { runnerId: 'own' } });
  await create(client, 'c', { id: 'nobodys', target: { labels: { gpu: 'yes', zone: 'b' } } });
  const leaving = new AbortController();
  const nothing = plain.assignments(4, { signal: leaving.signal });
  assert.equal((await gpu.claim()).id, 'labelled');
  assert.equal((await own.claim()).id, 'named');
  assert.equal((await get(client, 'nobodys')).waitsFor, 'a runner with gpu=yes, zone=b: none is there');
  leaving.abort();
  await assert.rejects(nothing, (error) => hasCode(error, 'cancelled'));
});

test('a runner of one’s own waits to be adopted; its token is its id’s alone', async () => {
  await using world = await startTestController({ hasWorker: false });
  const { client } = world;
  await newApp(client, 'shop');
  const token = 'a token of its own';
  const own = await join(world, 'own', { token });
  await create(client, 'shop', {});
  await assert.rejects(
    own.assignments(),
    (error) => hasCode(error, 'denied') && /waits to be adopted: flynn runner adopt own/.test(error.message),
  );
  const isWrong = (error: unknown) => hasCode(error, 'unauthenticated') && /own/.test(error.message);
  await assert.rejects(join(world, 'own', { token: 'another token, as long' }), isWrong);
  await assert.rejects(join(world, 'own'), isWrong, 'nor does the cluster’s token act as it');
  await join(world, 'second', { token: 'the token of the second' });
  const asOther = new TestRunner({ client, id: 'own', token: 'the token of the second' });
  await assert.rejects(asOther.assignments(), isWrong);
  const call = (name: 'adopt' | 'reject') => client.call(runners[name], { params: { runner: 'own' } });
  assert.equal((await call('adopt')).state, 'adopted');
  const [given] = await own.assignments();
  assert.ok(given !== undefined);
  await own.acknowledge(given);
  await whenTold(world);
  assert.deepEqual((await client.call(runners.get, { params: { runner: 'own' } })).operations, [given.id]);
  await assert.rejects(asOther.beat(given.id), isWrong);

  const waiting = own.assignments();
  const refused = assert.rejects(
    waiting,
    (error) => hasCode(error, 'denied') && /own was rejected/.test(error.message),
  );
  await call('reject');
  await refused;
  assert.equal((await own.finish(given.id, 'complete')).state, 'complete', 'what it runs it may end');
  await call('adopt');
  const relabelled = new TestRunner({ client, id: 'own', token, labels: { gpu: 'yes' } });
  assert.equal((await relabelled.register()).state, 'pending', 'it was adopted for what it was');
  await client.call(runners.forget, { params: { runner: 'own' } });
  await assert.rejects(
    own.assignments(),
    (error) => hasCode(error, 'unauthenticated') && /not registered/.test(error.message),
  );
  await join(world, 'own', { token: 'another token, as long' });
});

test('one that was added is adopted, in whatever order its labels are told', async () => {
  await using world = await startTestController({ hasWorker: false });
  const params = { runner: 'office' };
  const body = { labels: { zone: 'a', registry: 'team' } };
  const { token } = await world.client.call(runners.add, { params, body });
  const office = await join(world, 'office', { token, labels: { registry: 'team', zone: 'a' } });
  assert.equal((await office.register()).state, 'adopted');
});

test('one that took only what names it waits to be adopted again when it is to take more', async () => {
  await using world = await startTestController({ hasWorker: false });
  const { client } = world;
  const params = { runner: 'office' };
  const { token, isByIdOnly } = await client.call(runners.add, { params, body: { isByIdOnly: true } });
  assert.equal(isByIdOnly, true);
  const asByIdOnly = await join(world, 'office', { token, isByIdOnly: true });
  assert.equal((await asByIdOnly.register()).state, 'adopted');
  const asAny = new TestRunner({ client, id: 'office', token });
  assert.equal((await asAny.register()).state, 'pending');
  await client.call(runners.adopt, { params });
  assert.equal((await asAny.register()).state, 'adopted', 'adopted as it is now');
  assert.equal((await asByIdOnly.register()).state, 'adopted', 'it may always take less');
});

test('a runner is given no more than it has slots for, and gets the next when one has ended', async () => {
  await using world = await startTestController({ hasWorker: false });
  const { client } = world;
  for (const name of ['a', 'b', 'c']) {
    await newApp(client, name);
    await create(client, name, { id: `of-${name}` });
  }
  const runner = await join(world, 'r1', { slots: 2 });
  const given = await runner.assignments(3);
  assert.deepEqual(given.map(({ id }) => id).sort(), ['of-a', 'of-b']);
  await whenTold(world);
  await assert.rejects(
    runner.assignments(),
    (error) => hasCode(error, 'exhausted') && /r1 has 2 slots and holds of-a, of-b/.test(error.message),
  );
  for (const operation of given) await runner.acknowledge(operation);
  await runner.finish('of-a', 'complete');
  assert.equal((await runner.claim()).id, 'of-c');
});

test('runners of the platform that are gone are forgotten; those of others, and those that hold something, are not', async () => {
  await using world = await startTestController({ hasWorker: false });
  const { client, deps, store } = world;
  await newApp(client, 'shop');
  await create(client, 'shop', {});
  await (await join(world, 'busy')).claim();
  await join(world, 'idle');
  await join(world, 'own', { token: 'a token of its own' });
  const { revision } = await store.transact({ then: [{ put: '/flynn/leader/test', value: '1' }] });
  const options = {
    signal: AbortSignal.timeout(60_000),
    epoch: { key: '/flynn/leader/test', createRevision: revision },
  };
  const idsLeft = async (): Promise<string[]> => (await client.call(runners.list, {})).map(({ id }) => id);
  await forgetGoneRunners({ ...deps, now: () => Date.now() + forgetMs - 60_000 }, options);
  assert.deepEqual(await idsLeft(), ['busy', 'idle', 'own']);
  await forgetGoneRunners({ ...deps, now: () => Date.now() + forgetMs + 60_000 }, options);
  assert.deepEqual(await idsLeft(), ['busy', 'own']);
});

test('a runner that waits at one controller hears that it was rejected at another', async () => {
  const store = createMemoryStore();
  await using one = await startTestController({ store: store.connect(), hasWorker: false });
  await using two = await startTestController({ store: store.connect(), hasWorker: false, hosts: 0 });
  const runner = await join(one, 'r1');
  const refused = assert.rejects(
    runner.assignments(),
    (error) => hasCode(error, 'denied') && /r1 was rejected/.test(error.message),
  );
  await two.client.call(runners.reject, { params: { runner: 'r1' } });
  await refused;
});

test('a runner that is turned away, or forgotten, while it is given something does not get it: it goes to another', async (t) => {
  await using world = await startTestController({ hasWorker: false });
  const { client, deps } = world;
  const { writer, runners: mirror } = deps;
  await newApp(client, 'shop');
  const params = { runner: 'first' };
  const apply = writer.apply.bind(writer);
  for (const [turnAway, isRight] of [
    [
      () => client.call(runners.reject, { params }),
      (error: unknown) => hasCode(error, 'denied') && /first was rejected/.test(error.message),
    ],
    [
      () => client.call(runners.forget, { params }),
      (error: unknown) => hasCode(error, 'unauthenticated') && /not registered/.test(error.message),
    ],
  ] as const) {
    const [made] = await create(client, 'shop', {});
    const id = made?.id ?? '';
    const first = await join(world, 'first');
    await client.call(runners.adopt, { params });
    const given = t.mock.method(writer, 'apply', async (...asked: Parameters<typeof apply>) => {
      const written = await apply(...asked);
      if (asked[1].type !== 'assign') return written;
      await turnAway();
      const isKnown = async () => mirror.snapshot.entries.get('first')?.value.status.state !== 'adopted';
      await waitFor(isKnown, { what: 'the word of it', deadlineMs: 30_000, intervalMs: 1 });
      return written;
    });
    await assert.rejects(first.assignments(), isRight);
    given.mock.restore();
    assert.equal((await get(client, id)).state, 'queued');
    const second = await join(world, 'second');
    assert.equal((await second.claim()).id, id);
    await second.finish(id, 'complete');
  }
});

test('what runs is told at once to stop; force ends it and frees the app', async () => {
  await using world = await startTestController({ hasWorker: false });
  const { client } = world;
  await newApp(client, 'shop');
  const runner = await join(world, 'r1');
  const id = 'o1';
  await create(client, 'shop', { id }, { id: 'o2', dependsOn: ['o1'] }, { id: 'o3' });
  await runner.claim();
  const told = runner.beat(id, 20_000);
  const beganMs = performance.now();
  const params = { operation: id };
  const marked = await client.call(operations.cancel, { params });
  assert.deepEqual([marked.state, marked.isCancelRequested], ['running', true]);
  assert.deepEqual(await told, { cancelled: true });
  assert.ok(performance.now() - beganMs < 19_000, 'the beat ended by itself');
  const forced = await client.call(operations.cancel, { params, body: { force: true } });
  assert.deepEqual([forced.state, forced.error], ['cancelled', 'it was cancelled by force']);
  assert.equal((await get(client, 'o2')).error, 'the build before it was cancelled');
  assert.equal((await runner.claim()).id, 'o3');
  await assert.rejects(runner.finish(id, 'complete'), /is cancelled: it was cancelled by force: stop working on it/);
  assert.equal((await client.call(operations.cancel, { params, body: { force: true } })).error, forced.error);
});

test('a runner that was started anew under its id loses what the one before it held, though the watch has not told of it', async () => {
  const store = slowlyTold('/flynn/resource/operation/');
  await using world = await startTestController({ store, hasWorker: false });
  const { client } = world;
  for (const name of ['a', 'b', 'c']) await newApp(client, name);
  const runner = await join(world, 'r1');
  await create(client, 'a', { id: 'running', kind: 'release' });
  await create(client, 'c', { id: 'building' });
  await runner.claim();
  await runner.claim();
  await create(client, 'b', { id: 'given' });
  await runner.assignments();
  await runner.register();
  assert.equal((await get(client, 'running')).state, 'running', 'the same process may say twice who it is');
  await runner.register('two');
  const [running, building, given] = await Promise.all(['running', 'building', 'given'].map((id) => get(client, id)));
  assert.deepEqual([running?.state, building?.state, given?.state], ['failed', 'queued', 'queued']);
  assert.match(running?.error ?? '', /its runner r1 ended and was started anew: repeat the release/);
  assert.deepEqual([building?.losses?.length, given?.losses], [1, undefined], 'what had not begun was not lost');
});
