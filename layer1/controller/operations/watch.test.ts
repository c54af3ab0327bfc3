/** Runners that are not heard of: over a restart, over clocks that jump, and beside what another controller knows. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pause } from '@flynn/kit/clock';
import { hasCode, messageOf } from '@flynn/kit/errors';
import { createMemoryStore } from '@flynn/store/memory';
import { operations } from './api.ts';
import { OperationWatch, silenceMs } from './watch.ts';
import { TestRunner } from './test-runner.ts';
import { startTestController } from '../testing.ts';
import { operationType } from '../resources.ts';
import { join, newApp, create, get, watchAt, whenTold } from './lifecycle-fixture.ts';

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
  await whenTold(world);
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

test('what cannot be ended keeps nothing else from it, and all that failed is told', async () => {
  await using world = await startTestController({ hasWorker: false });
  const { client, deps } = world;
  const { operations: mirror, writer, log } = deps;
  const expiresAt = new Date(1).toISOString();
  const ids: string[] = [];
  for (const name of ['a', 'b', 'c']) {
    await newApp(client, name);
    const [one] = await create(client, name, { expiresAt, target: { runnerId: 'r1' } });
    ids.push(one?.id ?? '');
  }
  await mirror.reached((await world.store.list('/flynn/resource/operation/')).revision);
  const [first, second, third = ''] = ids;
  const apply: typeof writer.apply = async (id, ...rest) => {
    if (id === first || id === second) throw new Error(`no room for ${id}`);
    // Written after the others have failed.
    await pause(50, AbortSignal.timeout(5_000));
    return writer.apply(id, ...rest);
  };
  const failing = Object.assign(Object.create(writer) as typeof writer, { apply });
  const watch = new OperationWatch({ operations: mirror, writer: failing, log, now: deps.now });
  const told = [first, second].map((id) => `no room for ${id}`).toSorted();
  await assert.rejects(watch.sweep({ signal: AbortSignal.timeout(60_000) }), (error) => {
    assert.deepEqual(messageOf(error).split('; ').toSorted(), told);
    return true;
  });
  assert.equal((await get(client, third)).state, 'failed');
});
