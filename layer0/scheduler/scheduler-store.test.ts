import { pause } from '@flynn/kit/clock';
import { FlynnError } from '@flynn/kit/errors';
import { newId } from '@flynn/kit/ids';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { TaskGroup } from '@flynn/kit/tasks';
import { RestoredError } from '@flynn/store/store';
import { storeWith } from '@flynn/store/store-with';
import { lossyStore, openTestStore } from '@flynn/store/testing';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cellKeys } from './cell.ts';
import { evaluationSchema } from './evaluation.ts';
import { workloadChange } from './evaluations.ts';
import { findViolations } from './invariants.ts';
import { startScheduler } from './scheduler.ts';
import { hostOf, hostPut, readCell, workloadInputOf } from './testing.ts';

const log = silentLogger();
const context = () => ({ now: Date.now(), newId });

test('a change that the watch lost is found by the comparison with the store, and healed', async () => {
  const store = openTestStore();
  const stop = new AbortController();
  await store.transact({ then: [hostPut(hostOf('h1'))] });
  const lossy = lossyStore(store, (key) => key.startsWith(cellKeys.hosts));
  const scheduler = await startScheduler({
    store: lossy,
    log,
    signal: stop.signal,
    id: 'h1',
    resyncMs: 30,
    repairMs: 30,
  });
  await store.transact({ then: [hostPut(hostOf('h2'))] });
  await store.transact({ then: workloadChange(workloadInputOf({ count: 20 }), context()) });
  await waitFor(async () => (await readCell(store)).jobsOf('web').length === 20, {
    what: 'both hosts full',
    deadlineMs: 30_000,
  });
  assert.equal(scheduler.counts.drift, 1);
  await scheduler[Symbol.asyncDispose]();
  await store.close();
});

test('a scheduler that lost its store goes on when it is back', async () => {
  const store = openTestStore();
  const connection = store.connect();
  const stop = new AbortController();
  await store.transact({ then: [hostPut(hostOf('h1'))] });
  const scheduler = await startScheduler({ store: connection, log, signal: stop.signal, id: 'h1' });
  connection.disconnect();
  await store.transact({ then: workloadChange(workloadInputOf({ count: 2 }), context()) });
  connection.reconnect();
  await waitFor(async () => (await readCell(store)).jobsOf('web').length === 2, {
    what: 'the jobs',
    deadlineMs: 30_000,
  });
  await scheduler[Symbol.asyncDispose]();
  await connection.close();
  await store.close();
});

test('a store that fails for no known reason fails no plan', async () => {
  await using store = openTestStore();
  await store.transact({ then: [hostPut(hostOf('h1')), ...workloadChange(workloadInputOf(), context())] });
  const stop = new AbortController();
  let failures = 0;
  const shaky = storeWith(store, {
    transact(...args) {
      failures += 1;
      if (failures <= 2) throw new FlynnError('internal', 'a socket nobody has heard of');
      return store.transact(...args);
    },
  });
  await using scheduler = await startScheduler({ store: shaky, log, signal: stop.signal, id: 'h1' });
  await waitFor(() => scheduler.counts.placements === 1, { what: 'the jobs', deadlineMs: 30_000, intervalMs: 2 });
  const { entries } = await store.list(cellKeys.evaluations);
  assert.deepEqual(
    entries.map(({ value }) => evaluationSchema.parse(JSON.parse(value)).state),
    ['complete'],
  );
});

test('after the store was restored to an earlier state a scheduler begins anew and places what is asked for', async () => {
  await using store = openTestStore();
  await store.transact({ then: [hostPut(hostOf('h1'))] });
  const image = store.save();
  const stop = new AbortController();
  await using scheduler = await startScheduler({
    store: store.connect(),
    log,
    signal: stop.signal,
    id: 'h1',
    reopenMs: 10,
  });
  const placed = async (id: string) => {
    await store.transact({ then: workloadChange(workloadInputOf({ id }), context()) });
    const isPlaced = async () => (await readCell(store)).jobsOf(id).length === 1;
    await waitFor(isPlaced, { what: `the job of ${id}`, deadlineMs: 30_000, intervalMs: 2 });
  };
  for (const id of ['a', 'b', 'c']) await placed(id);
  await waitFor(() => scheduler.counts.committed === 3, { what: 'the last answer', deadlineMs: 30_000, intervalMs: 2 });
  store.restore(image);
  await placed('d');
  const cell = await readCell(store);
  assert.deepEqual(findViolations(cell), []);
  assert.equal(cell.jobCount, 1);
});

test('whatever a restored store answers at first, its scheduler tries again, and nothing else ends', async () => {
  await using store = openTestStore();
  await store.transact({ then: [hostPut(hostOf('h1'))] });
  const codes = ['unauthenticated', 'internal', 'invalid'] as const;
  let [isRestored, answers] = [false, 0];
  const restored = storeWith(store, {
    async list(...args) {
      const code = isRestored ? codes[answers] : undefined;
      if (code === undefined) return store.list(...args);
      answers += 1;
      throw new FlynnError(code, 'members are replaced');
    },
    async *watch(...args) {
      if (isRestored) yield* store.watch(...args);
      isRestored = true;
      throw new RestoredError(1);
    },
  });
  await using tasks = new TaskGroup();
  const options = { store: restored, log, signal: tasks.signal, tasks, id: 'h1', reopenMs: 10 };
  await using _scheduler = await startScheduler(options);
  await store.transact({ then: workloadChange(workloadInputOf(), context()) });
  const isPlaced = async () => (await readCell(store)).jobsOf('web').length === 1;
  await waitFor(isPlaced, { what: 'the job', deadlineMs: 30_000, intervalMs: 2 });
  assert.equal(answers, codes.length);
  assert.equal(tasks.signal.aborted, false);
});

test('a store that is said to be restored again and again is listed ever less often', async () => {
  await using store = openTestStore();
  await store.transact({ then: [hostPut(hostOf('h1'))] });
  const listedAt: number[] = [];
  const flapping = storeWith(store, {
    list(prefix, options) {
      if (prefix === cellKeys.hosts) listedAt.push(performance.now());
      return store.list(prefix, options);
    },
    async *watch(_prefix, { after, signal }) {
      yield { revision: after, changes: [] };
      await pause(1, signal);
      throw new RestoredError(after);
    },
  });
  const stop = new AbortController();
  await using _scheduler = await startScheduler({ store: flapping, log, signal: stop.signal, id: 'h1', reopenMs: 16 });
  await waitFor(() => listedAt.length === 7, { what: 'six of its restores', deadlineMs: 30_000, intervalMs: 2 });
  // Half of 16 + 32 + … + 512 ms at least.
  const tookMs = (listedAt.at(-1) ?? 0) - (listedAt[0] ?? 0);
  assert.ok(tookMs >= 500, `six listings took ${tookMs} ms`);
});

test('a claim that nobody can read is added up anew, and its host takes work again', async () => {
  await using store = openTestStore();
  const value = '{"planId":"x","memoryBytes":-1,"cpuMillis":0,"jobs":-3,"ports":{}}';
  await store.transact({ then: [hostPut(hostOf('h1')), { put: cellKeys.claim('h1'), value }] });
  const stop = new AbortController();
  const options = { store, log, signal: stop.signal, id: 'h1', repairMs: 20 };
  await using _scheduler = await startScheduler(options);
  await store.transact({ then: workloadChange(workloadInputOf({ count: 2 }), context()) });
  const isPlaced = async () => (await readCell(store)).jobsOf('web').length === 2;
  await waitFor(isPlaced, { what: 'the jobs', deadlineMs: 30_000, intervalMs: 2 });
  assert.deepEqual(findViolations(await readCell(store)), []);
});
