/** Operations of one store that several controllers give away and end. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { createMemoryStore } from '@flynn/store/memory';
import { operations } from './api.ts';
import { TestRunner } from './test-runner.ts';
import { startTestController } from '../testing.ts';
import { slowlyTold } from '../testing/slow-watch.ts';
import type { TestController } from '../testing.ts';
import { join, newApp, create, get } from './lifecycle-fixture.ts';
import type { Asked } from './lifecycle-fixture.ts';

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

const [historyWatch, liveWatch] = ['/flynn/operation-history/', '/flynn/resource/operation/'];

for (const [what, ...late] of [
  ['that it is in the history', historyWatch],
  ['that it is live no longer, and in the history', historyWatch, liveWatch],
] as const) {
  test(`what another controller ended is in the list, though word is on its way ${what}`, async () => {
    const store = slowlyTold(...late);
    await using one = await startTestController({ store, hasWorker: false });
    await using two = await startTestController({ store: store.connect(), hasWorker: false, hosts: 0 });
    await newApp(one.client, 'shop');
    const runner = await join(two, 'r1');
    const list = async () => (await one.client.call(operations.list, { params: { app: 'shop' } })).map(({ id }) => id);
    assert.deepEqual(await list(), []);
    for (const id of ['first', 'second']) {
      await create(two.client, 'shop', { id });
      await one.deps.operations.reached((await store.list(liveWatch)).revision);
      await runner.claim();
      await runner.finish(id, 'complete');
      for (let look = 0; look < 5; look += 1) assert.ok((await list()).includes(id), `${id} is in the list`);
    }
    assert.deepEqual(await list(), ['second', 'first']);
  });
}
