/** Operations and runners over the API: who gets what, what becomes of it, what survives. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { createMemoryStore } from '@flynn/store/memory';
import { operations } from './api.ts';
import type { Operation } from '../model.ts';
import { OperationWatch, acknowledgeMs, silenceMs } from './watch.ts';
import { TestRunner } from './test-runner.ts';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';
import { operationType } from '../resources.ts';
import { join, newApp, create, get, watchAt } from './lifecycle-fixture.ts';
import type { Asked } from './lifecycle-fixture.ts';

test('a thousand operations and eight runners: each is carried out exactly once', async () => {
  await using world = await startTestController({ hasWorker: false });
  const names = Array.from({ length: 40 }, (_, index) => `app${index}`);
  await Promise.all(names.map((name) => newApp(world.client, name)));
  const carriedOut: string[] = [];
  const stopping = new AbortController();
  const work = async (id: string): Promise<void> => {
    const runner = await join(world, id);
    while (!stopping.signal.aborted) {
      const given = await runner.assignments(4, { signal: stopping.signal }).catch((error: unknown) => {
        if (!stopping.signal.aborted) throw error;
        return [];
      });
      for (const operation of given) {
        await runner.acknowledge(operation);
        carriedOut.push(operation.id);
        await runner.report({ ended: [{ id: operation.id, state: 'complete' }] });
      }
      if (carriedOut.length === 1_000) stopping.abort();
    }
  };
  const working = Array.from({ length: 8 }, (_, index) => work(`runner${index}`));
  await Promise.all(names.map((name) => create(world.client, name, ...Array.from({ length: 25 }, (): Asked => ({})))));
  await Promise.all(working);
  assert.equal(carriedOut.length, 1_000);
  assert.equal(new Set(carriedOut).size, 1_000);
});

test('who asks waits, and is given it as soon as it is queued; of two one waits on', async () => {
  await using world = await startTestController({ hasWorker: false });
  await newApp(world.client, 'shop');
  const leaving = new AbortController();
  const asked = await Promise.all([join(world, 'r1'), join(world, 'r2')]);
  const answers = asked.map((runner) => runner.assignments(1, { signal: leaving.signal }));
  const first = Promise.race(answers);
  assert.equal(await Promise.race([first, new Promise((resolve) => setTimeout(resolve, 500, 'waits'))]), 'waits');
  const [operation] = await create(world.client, 'shop', {});
  assert.equal((await first)[0]?.id, operation?.id);
  leaving.abort();
  const settled = await Promise.allSettled(answers);
  assert.deepEqual(settled.map(({ status }) => status).sort(), ['fulfilled', 'rejected']);
});

test('declined or not acknowledged in time it is there for the next, and nothing of that ends it later', async () => {
  await using world = await startTestController({ hasWorker: false });
  const { client } = world;
  const lookAt = watchAt(world);
  await newApp(client, 'shop');
  const [r1, r2] = [await join(world, 'r1'), await join(world, 'r2')];
  const [{ id } = { id: '' }] = await create(client, 'shop', {});
  const [one] = await r1.assignments();
  assert.ok(one !== undefined);
  assert.deepEqual([one.state, one.runnerId, one.attempt], ['waiting', 'r1', 1]);
  await r1.decline(one);
  const declined = await get(client, id);
  assert.deepEqual(
    [declined.state, declined.runnerId, declined.waitsFor],
    ['queued', undefined, 'a runner that is free'],
  );

  const [two] = await r1.assignments();
  assert.ok(two !== undefined);
  await lookAt(0);
  await lookAt(acknowledgeMs - 1);
  assert.equal((await get(client, id)).state, 'waiting');
  await lookAt(acknowledgeMs);
  assert.equal((await get(client, id)).state, 'queued');
  const [three] = await r2.assignments();
  assert.deepEqual([three?.id, three?.attempt], [id, 3]);
  await assert.rejects(
    r1.acknowledge(two),
    (error) => hasCode(error, 'conflict') && /run by r2, not by r1/.test(error.message),
  );
  await r2.acknowledge({ id, attempt: 3 });
  await r2.acknowledge({ id, attempt: 3 });
  // Long after everything that was measured of the attempts before.
  await lookAt(acknowledgeMs + silenceMs - 1);
  await lookAt(acknowledgeMs + 2 * silenceMs - 2);
  assert.equal((await get(client, id)).state, 'running');
  assert.equal((await r2.finish(id, 'complete')).state, 'complete');
});

test('what runs goes on over a restart of the controller, with the whole time to be heard of', async () => {
  const store = createMemoryStore();
  const restarted = store.connect();
  let id: string;
  {
    await using world = await startTestController({ store, hasWorker: false });
    await newApp(world.client, 'shop');
    const runner = await join(world, 'r1');
    id = (await create(world.client, 'shop', {}, {}))[0]?.id ?? '';
    await runner.claim();
    await runner.append(id, 0, ['one']);
    await watchAt(world)(0);
  }
  await using world = await startTestController({ store: restarted, hasWorker: false });
  const { client } = world;
  const lookAt = watchAt(world);
  const r1 = new TestRunner({ client, id: 'r1', clusterKey: world.key });
  const r2 = await join(world, 'r2');
  await lookAt(1_000_000);
  await lookAt(1_000_000 + silenceMs - 1);
  assert.equal((await get(client, id)).state, 'running');
  await r1.append(id, 1, ['two']);
  assert.deepEqual(await r1.beat(id), { cancelled: false });
  assert.deepEqual(await r2.beat(id), { cancelled: true }, 'it is not this one’s');
  await assert.rejects(r2.append(id, 2, ['x']), (error) => hasCode(error, 'conflict'));
  await assert.rejects(r2.finish(id, 'complete'), (error) => hasCode(error, 'conflict'));
  await assert.rejects(r1.finish('nowhere', 'complete'), (error) => hasCode(error, 'not_found'));
  const after = await r1.finish(id, 'complete');
  assert.deepEqual([after.state, after.attempt], ['complete', 1]);
  assert.equal((await r2.assignments()).length, 1, 'the app’s next one');
});

test('after a restart one whose runner is gone fails when the whole time has passed', async () => {
  const store = createMemoryStore();
  const restarted = store.connect();
  let id: string;
  {
    await using world = await startTestController({ store, hasWorker: false });
    await newApp(world.client, 'shop');
    id = (await create(world.client, 'shop', {}))[0]?.id ?? '';
    await (await join(world, 'r1')).claim();
  }
  await using world = await startTestController({ store: restarted, hasWorker: false });
  const lookAt = watchAt(world);
  await lookAt(5);
  await lookAt(5 + silenceMs);
  const { state, error } = await get(world.client, id);
  assert.equal(state, 'failed');
  assert.match(error ?? '', /^heartbeat timeout: r1 was not heard of/);
});

test('a clock that jumps takes no operation from its runner', async () => {
  await using world = await startTestController({ hasWorker: false });
  const { client, deps } = world;
  const lookAt = watchAt(world);
  for (const name of ['a', 'b']) await newApp(client, name);
  const runner = await join(world, 'r1');
  const [running] = await create(client, 'a', {});
  await runner.claim();
  const [waiting] = await create(client, 'b', {});
  await runner.assignments();
  const states = () => Promise.all([running, waiting].map(async (one) => (await get(client, one?.id ?? '')).state));
  await lookAt(0);
  await lookAt(1_000, 86_400_000);
  assert.deepEqual(await states(), ['running', 'waiting']);
  await lookAt(silenceMs - 1, 0);
  assert.deepEqual(await states(), ['running', 'queued']);

  // It was heard of by a controller whose clock was ahead.
  const id = running?.id ?? '';
  const ahead = deps.now() + 3_600_000;
  await deps.resources.updateStatus(operationType, id, ({ status }) => ({ ...status, heartbeatAt: ahead }));
  assert.deepEqual(await runner.beat(id), { cancelled: false });
  const { status } = await deps.resources.get(operationType, id, {});
  assert.ok((status.heartbeatAt ?? ahead) < ahead, 'each sign of life from now on would be kept from the watch');
});

test('what is overdue by what is known here alone is let be when more was written elsewhere', async () => {
  await using world = await startTestController({ hasWorker: false });
  const { client, deps } = world;
  const { operations: mirror, writer, log } = deps;
  for (const name of ['a', 'b', 'c']) await newApp(client, name);
  const runner = await join(world, 'r1');
  const [running] = await create(client, 'a', {});
  await runner.claim();
  const [waiting] = await create(client, 'b', {});
  const [given] = await runner.assignments();
  const [queued] = await create(client, 'c', { expiresAt: new Date(1).toISOString(), target: { runnerId: 'r2' } });
  await mirror.reached((await world.store.list('/flynn/resource/operation/')).revision);
  let steadyMs = 0;
  const late = { operations: { ...mirror, snapshot: mirror.snapshot } as typeof mirror, writer, log };
  const watch = new OperationWatch({ ...late, now: () => steadyMs, steadyNow: () => steadyMs });
  const { signal } = new AbortController();
  await watch.sweep({ signal });

  const beaten = { heartbeatAt: deps.now() + 10_000 };
  await deps.resources.updateStatus(operationType, running?.id ?? '', ({ status }) => ({ ...status, ...beaten }));
  await runner.decline(given ?? { id: '' });
  await runner.assignments();
  await client.call(operations.update, { params: { operation: queued?.id ?? '' }, body: { expiresAt: null } });
  steadyMs = silenceMs;
  await watch.sweep({ signal });
  const now = await Promise.all([running, waiting, queued].map((one) => get(client, one?.id ?? '')));
  assert.deepEqual(
    now.map(({ state, attempt }) => [state, attempt]),
    [
      ['running', 1],
      ['waiting', 2],
      ['queued', undefined],
    ],
  );
});

test('queued and given away it expires, running it does not, and the time can be moved', async () => {
  await using world = await startTestController({ hasWorker: false });
  const { client } = world;
  const lookAt = watchAt(world);
  const expiresAt = new Date(10_000).toISOString();
  for (const name of ['a', 'b', 'c', 'd']) await newApp(client, name);
  const runner = await join(world, 'r1');
  const [running] = await create(client, 'a', { expiresAt });
  await runner.claim();
  const [waiting] = await create(client, 'b', { expiresAt });
  await runner.assignments();
  const [queued, next] = await create(client, 'c', { id: 'first', expiresAt }, { dependsOn: ['first'] });
  const [moved] = await create(client, 'd', { expiresAt });
  const later = { params: { operation: moved?.id ?? '' }, body: { expiresAt: new Date(30_000).toISOString() } };
  assert.equal((await client.call(operations.update, later)).expiresAt, later.body.expiresAt);
  await lookAt(9_999);
  assert.equal((await get(client, queued?.id ?? '')).state, 'queued');
  await lookAt(10_000);
  const states = await Promise.all([running, waiting, queued, next, moved].map((one) => get(client, one?.id ?? '')));
  assert.deepEqual(
    states.map(({ state }) => state),
    ['running', 'failed', 'failed', 'cancelled', 'queued'],
  );
  assert.match(states[1]?.error ?? '', /it expired at .*: r1 had not begun it/);
  assert.match(states[2]?.error ?? '', /it expired at .*: no runner had taken it/);
  await lookAt(30_000);
  assert.equal((await get(client, moved?.id ?? '')).state, 'failed');
});

test('how long it may wait is by the controller’s clock, and is moved or taken away', async () => {
  await using world = await startTestController({ hasWorker: false });
  const { client } = world;
  await newApp(client, 'shop');
  const [one] = await create(client, 'shop', { expiresInMs: 60_000 });
  assert.ok(one !== undefined);
  const waitMs = ({ createdAt, expiresAt = '' }: Operation) => Date.parse(expiresAt) - Date.parse(createdAt);
  assert.ok(Math.abs(waitMs(one) - 60_000) < 30_000, one.expiresAt);
  const lookAt = watchAt(world);
  const params = { operation: one.id };
  const moved = await client.call(operations.update, { params, body: { expiresInMs: 3_600_000 } });
  assert.ok(waitMs(moved) >= 3_600_000, moved.expiresAt);
  await lookAt(Date.parse(one.expiresAt ?? ''));
  assert.equal((await get(client, one.id)).state, 'queued');
  const free = await client.call(operations.update, { params, body: { expiresAt: null } });
  assert.equal(free.expiresAt, undefined);
  await lookAt(Date.parse(moved.expiresAt ?? ''));
  assert.equal((await get(client, one.id)).state, 'queued');
  const both = { expiresAt: new Date(0).toISOString(), expiresInMs: 1_000 };
  await assert.rejects(client.call(operations.update, { params, body: both }), /either expiresAt or expiresInMs/);
  await assert.rejects(create(client, 'shop', both), /either expiresAt or expiresInMs/);
  await assert.rejects(client.call(operations.update, { params, body: {} }), /until when\?/);
  await assert.rejects(create(client, 'shop', { expiresInMs: 10 }), (error) => hasCode(error, 'invalid'));
});

test('all are created or none; what depends on a failed one is cancelled to the last, unless it may fail', async () => {
  await using world = await startTestController({ hasWorker: false });
  const { client } = world;
  await newApp(client, 'shop');
  const runner = await join(world, 'r1');
  await assert.rejects(
    create(client, 'shop', { id: 'fine' }, { id: 'x', dependsOn: ['nowhere'] }),
    (error) => hasCode(error, 'invalid') && /depends on nowhere/.test(error.message),
  );
  await assert.rejects(get(client, 'fine'), (error) => hasCode(error, 'not_found'));
  await create(
    client,
    'shop',
    { id: 'grandchild', dependsOn: ['child'] },
    { id: 'child', dependsOn: ['root', 'other'] },
    { id: 'despite', dependsOn: ['root'], mayFail: ['root'] },
    { id: 'root' },
    { id: 'other' },
  );
  await create(client, 'shop', { id: 'later', dependsOn: ['root'] });
  assert.equal((await create(client, 'shop', { id: 'later', dependsOn: ['root'] }))[0]?.id, 'later', 'asked for twice');
  const first = await runner.claim();
  assert.equal(first.id, 'root', 'of those created at once the first that waits for no other');
  await runner.finish('root', 'failed', { error: 'broken' });
  const states = await Promise.all(['child', 'grandchild', 'later', 'despite'].map((id) => get(client, id)));
  assert.deepEqual(
    states.map(({ state, error }) => [state, error]),
    [
      ['cancelled', 'the build before it failed'],
      ['cancelled', 'the build before it failed'],
      ['cancelled', 'the build before it failed'],
      ['queued', undefined],
    ],
  );
  for (const id of ['despite', 'other']) {
    assert.equal((await runner.claim()).id, id);
    await runner.finish(id, 'complete');
  }
  await assert.rejects(create(client, 'shop', { dependsOn: ['root'] }), /is failed: it would never run/);
  assert.equal((await create(client, 'shop', { dependsOn: ['other'] }))[0]?.state, 'queued');
});

test('of a singleton the newest is left, in the place of the oldest', async () => {
  await using world = await startTestController({ hasWorker: false });
  const { client } = world;
  await newApp(client, 'shop');
  const runner = await join(world, 'r1');
  await create(client, 'shop', { id: 'one', singletonId: 's' }, { id: 'child', dependsOn: ['one'] });
  await create(client, 'shop', { id: 'between' });
  for (const id of ['two', 'three']) await create(client, 'shop', { id, singletonId: 's' });
  const ended = await Promise.all(['one', 'two', 'child'].map((id) => get(client, id)));
  assert.deepEqual(
    ended.map(({ state, error }) => [state, error]),
    [
      ['cancelled', 'superseded by two'],
      ['cancelled', 'superseded by three'],
      ['cancelled', 'the build before it was cancelled'],
    ],
  );
  assert.equal((await runner.claim()).id, 'three');
  await create(client, 'shop', { id: 'four', singletonId: 's' });
  assert.equal((await get(client, 'three')).state, 'running', 'one that runs is left alone');
  await runner.finish('three', 'complete');
  assert.equal((await runner.claim()).id, 'between');
});

test('two controllers on one store give nothing twice', async () => {
  const store = createMemoryStore();
  await using one = await startTestController({ store: store.connect(), hasWorker: false });
  await using two = await startTestController({ store: store.connect(), hasWorker: false, hosts: 0 });
  const names = Array.from({ length: 10 }, (_, index) => `app${index}`);
  await Promise.all(names.map((name) => newApp(one.client, name)));
  const begun: string[] = [];
  const stopping = new AbortController();
  const work = async (world: TestController, id: string): Promise<void> => {
    const runner = await join(world, id);
    while (!stopping.signal.aborted) {
      const given = await runner.assignments(3, { signal: stopping.signal }).catch((error: unknown) => {
        if (!stopping.signal.aborted) throw error;
        return [];
      });
      for (const operation of given) {
        await runner.acknowledge(operation);
        begun.push(operation.id);
        await runner.report({ ended: [{ id: operation.id, state: 'complete' }] });
      }
      if (begun.length >= 100) stopping.abort();
    }
  };
  const working = [work(one, 'r1'), work(two, 'r2'), work(one, 'r3'), work(two, 'r4')];
  for (const name of names) await create(one.client, name, ...Array.from({ length: 10 }, (): Asked => ({})));
  await Promise.all(working);
  assert.equal(new Set(begun).size, 100);
  assert.equal(begun.length, 100);
  await waitFor(() => two.deps.queue.size === 0, { what: 'nothing to be live', deadlineMs: 30_000 });
  assert.equal((await store.list('/flynn/operation-lock/')).entries.length, 0);
});

test('ended by several at once, at two controllers, an operation ends once and leaves nothing behind', async () => {
  const store = createMemoryStore();
  await using one = await startTestController({ store: store.connect(), hasWorker: false });
  await using two = await startTestController({ store: store.connect(), hasWorker: false, hosts: 0 });
  await newApp(one.client, 'shop');
  const here = await join(one, 'r1');
  const there = new TestRunner({ client: two.client, id: 'r1', clusterKey: two.key });
  for (let round = 0; round < 20; round += 1) {
    const id = `o${round}`;
    await create(one.client, 'shop', { id }, { id: `${id}-next`, dependsOn: [id] });
    assert.equal((await here.claim()).id, id);
    const params = { operation: id };
    const answers = await Promise.allSettled([
      there.finish(id, 'complete'),
      one.client.call(operations.cancel, { params, body: { force: true } }),
      here.finish(id, 'failed', { error: 'no' }),
      two.client.call(operations.cancel, { params }),
      here.append(id, 0, ['a line']),
      there.beat(id),
    ]);
    for (const answer of answers) {
      if (answer.status === 'rejected') assert.ok(hasCode(answer.reason, 'conflict'), String(answer.reason));
    }
    const { state } = await get(one.client, id);
    const next = await get(two.client, `${id}-next`);
    assert.equal(next.state, state === 'complete' ? 'queued' : 'cancelled', `${id} is ${state}`);
    if (state !== 'complete') continue;
    await here.claim();
    await there.finish(`${id}-next`, 'complete');
  }
  const left = await Promise.all(
    ['/flynn/resource/operation/', '/flynn/operation-lock/', '/flynn/operation-history/'].map((prefix) =>
      store.list(prefix),
    ),
  );
  assert.deepEqual(
    left.map(({ entries }) => entries.length),
    [0, 0, 40],
  );
});

test('lists show what is under way first, then what ended last, of one app or of all', async () => {
  await using world = await startTestController({ hasWorker: false });
  const { client } = world;
  for (const name of ['a', 'b']) await newApp(client, name);
  const runner = await join(world, 'r1');
  await create(client, 'a', { id: 'a1' }, { id: 'a2' });
  await create(client, 'b', { id: 'b1' });
  for (let index = 0; index < 2; index += 1) await runner.finish((await runner.claim()).id, 'complete');
  const idsOf = (found: Operation[]) => found.map(({ id }) => id);
  assert.deepEqual(idsOf(await client.call(operations.list, { params: { app: 'a' } })), ['a2', 'a1']);
  const all = await client.call(operations.listAll, {});
  assert.deepEqual(idsOf(all)[0], 'b1');
  assert.deepEqual(idsOf(all).slice(1).sort(), ['a1', 'a2']);
  assert.deepEqual(idsOf(await client.call(operations.listAll, { query: { ended: 'false' } })), ['b1']);
  assert.equal((await client.call(operations.listAll, { query: { limit: 2 } })).length, 2);
});
