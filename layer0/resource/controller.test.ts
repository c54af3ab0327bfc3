import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fakeClock } from '@flynn/kit/clock';
import { newId } from '@flynn/kit/ids';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { openTestStore } from '@flynn/store/testing';
import type { Store } from '@flynn/store/store';
import { runController } from './controller.ts';
import type { Controller } from './controller.ts';
import { shelfType } from './demo.ts';
import { runReconciler } from './reconciler.ts';
import type { Source } from './reconciler.ts';
import { resyncPauseMs } from './reconciler.ts';
import { ResourceService } from './service.ts';
import { restartPauseMs, supervise, superviseAll } from './supervise.ts';

const log = silentLogger();
const wait = { deadlineMs: 60_000, intervalMs: 5 };

function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

function sourceOf(ids: readonly string[]): Source {
  return { all: () => ids, subscribe: () => () => undefined };
}

test('a task that dies young is started again ever later, up to a minute; one that lived is forgiven', async () => {
  const clock = fakeClock();
  const stop = new AbortController();
  const startedAt: number[] = [];
  const lives = [0, 0, 0, 5_000, 0];
  const running = supervise(
    'the task',
    async (signal) => {
      startedAt.push(clock.now());
      const livesMs = lives[startedAt.length - 1];
      if (livesMs === undefined) return untilAborted(signal);
      if (livesMs > 0) await clock.sleep(livesMs, { signal });
      // Ending without a word is dying too.
      if (startedAt.length % 2 === 0) return undefined;
      throw new Error('a bad day');
    },
    { signal: stop.signal, log, clock, random: () => 0.5 },
  );
  await clock.advance(60_000);
  assert.deepEqual(startedAt, [0, 500, 1_500, 3_500, 9_000, 10_000]);
  stop.abort();
  await running;
  assert.deepEqual(
    [1, 2, 3, 8, 50].map((deaths) => restartPauseMs(deaths, () => 0.5)),
    [500, 1_000, 2_000, 60_000, 60_000],
  );
  assert.deepEqual([restartPauseMs(1, () => 0), restartPauseMs(50, () => 0.999)], [375, 74_970]);
});

test('stopping while a restart is awaited ends it at once', async () => {
  const stop = new AbortController();
  let starts = 0;
  const running = supervise(
    'the task',
    async () => {
      starts += 1;
      setImmediate(() => stop.abort());
      throw new Error('a bad day');
    },
    { signal: stop.signal, log },
  );
  await running;
  assert.equal(starts, 1);
});

test('of several tasks one that fails stops no other, and what it left behind ends before it is started again', async () => {
  const stop = new AbortController();
  const runs: AbortSignal[] = [];
  const wereOver: boolean[] = [];
  let others = 0;
  const running = superviseAll(
    [
      {
        name: 'failing',
        async run(signal) {
          wereOver.push(...runs.map(({ aborted }) => aborted));
          runs.push(signal);
          throw new Error('a bad day');
        },
      },
      {
        name: 'other',
        async run(signal) {
          others += 1;
          await untilAborted(signal);
          others -= 1;
        },
      },
    ],
    { signal: stop.signal, log },
  );
  await waitFor(() => runs.length === 2, { what: 'the second run', ...wait });
  assert.deepEqual(wereOver, [true]);
  assert.equal(others, 1);
  stop.abort();
  await running;
  assert.equal(others, 0);
});

/** A controller that tells when it runs. */
function probe(placement: Controller['placement'], over: Partial<Controller> = {}) {
  const state = { runs: 0, active: 0, epochs: 0 };
  const controller: Controller = {
    name: 'probe',
    placement,
    async run({ signal, epoch }) {
      state.runs += 1;
      state.active += 1;
      if (epoch !== undefined) state.epochs += 1;
      await untilAborted(signal);
      state.active -= 1;
    },
    ...over,
  };
  return { state, controller };
}

function runOn(store: Store, controller: Controller) {
  const stop = new AbortController();
  const done = runController(controller, { store, signal: stop.signal, log, leaseTtlSeconds: 0.3 });
  return { stop, done };
}

test('a singleton runs in one process, and in another when that one stops or is cut off', async () => {
  await using store = openTestStore();
  await using other = store.connect();
  await using third = store.connect();
  const { state, controller } = probe('singleton');
  const first = runOn(store, controller);
  await waitFor(() => state.active === 1, { what: 'the first', ...wait });
  const rest = [runOn(other, controller), runOn(third, controller)];
  first.stop.abort();
  await first.done;
  await waitFor(() => state.runs === 2 && state.active === 1, { what: 'the second', ...wait });
  // Whichever has it loses its connection, and with it the seat.
  other.disconnect();
  third.disconnect();
  await waitFor(() => state.active === 0, { what: 'the loss of the seat', ...wait });
  other.reconnect();
  third.reconnect();
  await waitFor(() => state.runs === 3 && state.active === 1, { what: 'the return', ...wait });
  assert.equal(state.epochs, 3);
  for (const { stop } of rest) stop.abort();
  await Promise.all(rest.map(({ done }) => done));
});

test('placed on each, it runs everywhere, without a seat', async () => {
  await using store = openTestStore();
  const { state, controller } = probe('each');
  const all = [runOn(store, controller), runOn(store, controller)];
  await waitFor(() => state.active === 2, { what: 'both', ...wait });
  assert.equal(state.epochs, 0);
  for (const { stop } of all) stop.abort();
  await Promise.all(all.map(({ done }) => done));
  assert.deepEqual((await store.list('/')).entries, []);
});

test('what a controller needs first is tried until it succeeds, and only then it runs', async () => {
  await using store = openTestStore();
  let tries = 0;
  const { state, controller } = probe('each', {
    async initialize() {
      tries += 1;
      assert.equal(state.runs, 0);
      if (tries === 1) throw new Error('not yet');
    },
  });
  const { stop, done } = runOn(store, controller);
  await waitFor(() => state.active === 1, { what: 'the run', ...wait });
  assert.equal(tries, 2);
  stop.abort();
  await done;
});

test('every id is looked at again and again, a little sooner each time than a fleet in step would', async () => {
  assert.deepEqual(
    [0, 0.5, 1].map((random) => resyncPauseMs(1_000, () => random)),
    [1_000, 900, 800],
  );
  const stop = new AbortController();
  let runs = 0;
  let draws = 0;
  await runReconciler({
    name: 'test',
    sources: [sourceOf(['a'])],
    log,
    signal: stop.signal,
    resyncMs: 20,
    random: () => (draws += 1) / 10,
    async reconcile() {
      runs += 1;
      if (runs === 4) stop.abort();
    },
  });
  assert.ok(draws >= 3);
});

test('a reconciler that throws before it waits has failed like any other, and stops nobody', async () => {
  const stop = new AbortController();
  const runs: string[] = [];
  await runReconciler({
    name: 'test',
    sources: [
      {
        all: () => {
          throw new Error('a source that cannot be read');
        },
        subscribe: () => () => undefined,
      },
      sourceOf(['bad', 'good']),
    ],
    log,
    signal: stop.signal,
    reconcile(id) {
      runs.push(id);
      if (id === 'bad' && runs.filter((run) => run === 'bad').length === 1) throw new TypeError('a bug');
      if (runs.length === 3) stop.abort();
      return Promise.resolve();
    },
  });
  assert.deepEqual(runs, ['bad', 'good', 'bad']);
});

test('who asks for another look in a second does not get it before', async () => {
  const stop = new AbortController();
  const atMs: number[] = [];
  await runReconciler({
    name: 'test',
    sources: [sourceOf(['a'])],
    log,
    signal: stop.signal,
    async reconcile() {
      atMs.push(performance.now());
      if (atMs.length === 2) stop.abort();
      return { againInMs: 200 };
    },
  });
  const pauseMs = (atMs[1] ?? 0) - (atMs[0] ?? 0);
  assert.ok(pauseMs >= 195, `after ${pauseMs} ms`);
});

test('the cache is full before the first look, and nobody can change what is in it', async () => {
  await using store = openTestStore();
  const service = new ResourceService({ store, now: Date.now, newId, log });
  const created = await Promise.all(
    ['a', 'b', 'c'].map((name) => service.create(shelfType, { spec: { name, books: 1 }, labels: { x: '1' } })),
  );
  await using shelves = await service.mirror(shelfType);
  assert.equal(shelves.snapshot.entries.size, 3);
  const [first] = created;
  assert.ok(first !== undefined);
  const cached = shelves.snapshot.entries.get(first.id)?.value;
  assert.ok(cached !== undefined);
  for (const part of [cached, cached.spec, cached.status, cached.labels, cached.conditions, cached.finalizers]) {
    assert.throws(() => Object.assign(part, { books: 99, x: '2', 0: 'y' }), TypeError);
  }
  assert.deepEqual(shelves.snapshot.entries.get(first.id)?.value, first);
  assert.deepEqual(await service.get(shelfType, first.id), first);
});
