/** Mirrors of one store keep no order among each other: what is here already may have happened after what is not yet. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cellKeys } from '@flynn/scheduler/cell';
import { raceAbort, waitFor } from '@flynn/kit/retry';
import { createMemoryStore } from '@flynn/store/memory';
import type { Store } from '@flynn/store/store';
import { apps, deployments, jobs } from '../api.ts';
import { startTestController } from '../testing.ts';
import { placedJobs } from './cell-view.ts';

/** Who watches just one of the prefixes hears nothing from `hold` to `release`. */
function holding(store: Store, ...prefixes: string[]): { store: Store; hold: () => void; release: () => void } {
  let gate = Promise.withResolvers<void>();
  gate.resolve();
  const watch = store.watch.bind(store);
  store.watch = async function* (watched, options) {
    for await (const batch of watch(watched, options)) {
      if (prefixes.includes(watched)) {
        // Nobody watches any more: the batch goes to nobody, and the mirror that ended the watch knows why.
        await raceAbort(gate.promise, options.signal).catch(() => undefined);
      }
      yield batch;
    }
  };
  return {
    store,
    hold: () => (gate = Promise.withResolvers<void>()),
    release: () => gate.resolve(),
  };
}

test(
  'a build that is through is not taken for gone while word of its end is on its way',
  { timeout: 60_000 },
  async () => {
    const held = holding(createMemoryStore(), cellKeys.status);
    await using world = await startTestController({ store: held.store });
    const { client } = world;
    await world.deployApp('slug-builder', { build: { command: ['build'] } }, { isSystem: true });
    await client.call(apps.create, { body: { name: 'shop' } });
    world.setBehaviour(() => ({ is: 'exit', code: 0, lines: ['built'] }));
    held.hold();
    const params = { app: 'shop' };
    const { workloadId } = await client.call(jobs.build, {
      params,
      body: { operationId: 'build-a', sourceDigest: 'd' },
    });
    const { workloads } = world.deps.cell;
    const isGone = () => (workloads.snapshot.entries.get(workloadId)?.value.count ?? 0) === 0;
    await waitFor(isGone, { what: 'the workload to go', deadlineMs: 30_000 });
    const job = { app: 'shop', job: workloadId };
    // Until its place is taken back, too, it is seen as one that has not begun.
    const errors: unknown[] = [];
    const state = async () => {
      try {
        return (await client.call(jobs.get, { params: job })).state;
      } catch (error) {
        errors.push(error);
        return undefined;
      }
    };
    await waitFor(async () => (await state()) === 'done', { what: 'its end', deadlineMs: 30_000 });
    assert.deepEqual(errors, []);
    (await client.upgrade(jobs.attach, { params: job, query: { logs: true } })).destroy();
    held.release();
  },
);

test('who waits for a job that ends before it is seen gets to it', { timeout: 60_000 }, async () => {
  const held = holding(createMemoryStore(), cellKeys.status, cellKeys.assignments);
  await using world = await startTestController({ store: held.store, behave: () => ({ is: 'exit', code: 0 }) });
  const { client } = world;
  await world.deployApp('slug-builder', { build: { command: ['build'] } }, { isSystem: true });
  await client.call(apps.create, { body: { name: 'shop' } });
  held.hold();
  const { workloadId } = await client.call(jobs.build, {
    params: { app: 'shop' },
    body: { operationId: 'build-b', sourceDigest: 'd' },
  });
  const socket = await client.upgrade(jobs.attach, { params: { app: 'shop', job: workloadId }, query: { logs: true } });
  socket.destroy();
  held.release();
});

test(
  'a job whose workload or place is here before its template is still of its type',
  { timeout: 60_000 },
  async () => {
    const held = holding(createMemoryStore(), cellKeys.templates, cellKeys.status);
    await using world = await startTestController({ store: held.store });
    const { client } = world;
    const { cell } = world.deps;
    const { release } = await world.deployApp('shop', { web: {} });
    held.hold();
    const { id } = await client.call(jobs.run, { params: { app: 'shop' }, body: { command: ['work'] } });
    await waitFor(() => cell.workloads.snapshot.entries.has(id), { what: 'the workload', deadlineMs: 30_000 });
    const asWorkload = await client.call(jobs.get, { params: { app: 'shop', job: id } });
    assert.deepEqual([asWorkload.type, asWorkload.releaseId], ['run', release.id]);
    held.release();
    // By the name of its place, once another one has got one.
    held.hold();
    const { workloadId } = await client.call(jobs.run, { params: { app: 'shop' }, body: { command: ['work'] } });
    const isPlaced = () => placedJobs(cell).find((job) => job.workloadId === workloadId);
    const place = await waitFor(isPlaced, { what: 'its place', deadlineMs: 30_000 });
    const asPlaced = await client.call(jobs.get, { params: { app: 'shop', job: place.id } });
    assert.deepEqual([asPlaced.type, asPlaced.releaseId], ['run', release.id]);
    held.release();
  },
);

test('a deployment whose job is up before its app is known to be deployed goes on', { timeout: 60_000 }, async () => {
  const held = holding(createMemoryStore(), '/flynn/resource/app/');
  await using world = await startTestController({ store: held.store });
  const { client } = world;
  const { cell } = world.deps;
  const { app } = await world.deployApp('shop', { web: {} });
  const next = await world.makeRelease('shop', { web: {} });
  held.hold();
  const params = { app: 'shop' };
  const { id } = await client.call(deployments.create, { params, body: { releaseId: next.id } });
  const isUp = () =>
    [...cell.statuses.snapshot.entries.values()].some(
      ({ value }) =>
        value.workloadId.startsWith(app.id) && value.meta['flynn.release'] === next.id && value.state === 'running',
    );
  await waitFor(isUp, { what: 'the job of the new release', deadlineMs: 30_000 });
  held.release();
  assert.equal((await world.endOf(id)).state, 'complete');
});

test('a deleted app takes along what was asked for a moment before', { timeout: 60_000 }, async () => {
  const held = holding(createMemoryStore(), cellKeys.workloads, cellKeys.assignments, cellKeys.status);
  await using world = await startTestController({ store: held.store });
  const { client, store } = world;
  // Nothing runs of it but what is asked for last.
  const { app } = await world.deployApp('shop', { worker: {} });
  held.hold();
  const params = { app: 'shop' };
  const { workloadId } = await client.call(jobs.run, { params, body: { command: ['work'] } });
  const removed = client.call(apps.remove, { params });
  const isGone = async (key: string) => (await store.get(key)) === undefined;
  const isJudged = async () =>
    (await isGone(`/flynn/resource/app/${app.id}`)) || (await isGone(cellKeys.workload(workloadId)));
  await waitFor(isJudged, { what: 'the deletion to begin', deadlineMs: 30_000 });
  held.release();
  await removed;
  const left = async () => {
    const { entries } = await store.list('/flynn/');
    return entries.filter(({ key, value }) => key.includes(app.id) || value.includes(app.id)).map(({ key }) => key);
  };
  assert.deepEqual(await left(), []);
  assert.ok(world.hosts.flatMap((host) => host.statuses()).every(({ isFinal }) => isFinal));
});
