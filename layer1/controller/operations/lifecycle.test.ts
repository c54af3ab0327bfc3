/** Operations and runners over the API: who gets what, and what becomes of it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { operations } from './api.ts';
import type { Operation } from '../model.ts';
import { acknowledgeMs, silenceMs } from './watch.ts';
import { startTestController } from '../testing.ts';
import { join, newApp, create, get, watchAt, whenTold } from './lifecycle-fixture.ts';
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
  await whenTold(world);
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

test('lists show what is under way first, then what ended last, of one app or of all', async () => {
  await using world = await startTestController({ hasWorker: false });
  const { client } = world;
  for (const name of ['a', 'b']) await newApp(client, name);
  const runner = await join(world, 'r1');
  await create(client, 'a', { id: 'a1' }, { id: 'a2' });
  for (let index = 0; index < 2; index += 1) await runner.finish((await runner.claim()).id, 'complete');
  // Queued from the start it would be the second to be given, where word of the end of a1 is late.
  await create(client, 'b', { id: 'b1' });
  const idsOf = (found: Operation[]) => found.map(({ id }) => id);
  assert.deepEqual(idsOf(await client.call(operations.list, { params: { app: 'a' } })), ['a2', 'a1']);
  const all = await client.call(operations.listAll, {});
  assert.deepEqual(idsOf(all)[0], 'b1');
  assert.deepEqual(idsOf(all).slice(1).sort(), ['a1', 'a2']);
  assert.deepEqual(idsOf(await client.call(operations.listAll, { query: { ended: 'false' } })), ['b1']);
  assert.equal((await client.call(operations.listAll, { query: { limit: 2 } })).length, 2);
});
