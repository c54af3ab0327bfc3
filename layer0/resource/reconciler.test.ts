import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { pause, systemClock } from '@flynn/kit/clock';
import { FlynnError } from '@flynn/kit/errors';
import { newId } from '@flynn/kit/ids';
import { createLogger, silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { openMirror } from '@flynn/store/mirror';
import { openTestStore } from '@flynn/store/testing';
import { runLibrarian, shelfType } from './demo.ts';
import { keysOf, runReconciler } from './reconciler.ts';
import type { Source } from './reconciler.ts';
import { ResourceService } from './service.ts';
import { failurePauseMs } from './work-queue.ts';

const log = silentLogger();

function sourceOf(ids: string[]): Source & { add: (id: string) => void } {
  const adds = new Set<(id: string) => void>();
  return {
    all: () => ids,
    subscribe(add) {
      adds.add(add);
      return () => adds.delete(add);
    },
    add: (id) => adds.forEach((add) => add(id)),
  };
}

test('the demo reconciler brings a shelf to its spec, follows changes, and cleans up before deletion', async () => {
  await using store = openTestStore();
  const service = new ResourceService({ store, now: Date.now, newId, log });
  const stop = new AbortController();
  const running = runLibrarian({ service, log, signal: stop.signal });
  const { id } = await service.create(shelfType, { spec: { name: 'a', books: 5 } });
  const holds = (books: number) => async () => {
    const { status, generation, observedGeneration } = await service.get(shelfType, id);
    return status.books === books && observedGeneration === generation;
  };
  await waitFor(holds(5), { what: 'five books', deadlineMs: 30_000, intervalMs: 5 });
  await service.update(shelfType, id, ({ spec }) => ({ ...spec, books: 2 }));
  await waitFor(holds(2), { what: 'two books', deadlineMs: 30_000, intervalMs: 5 });
  await service.delete(shelfType, id);
  await waitFor(async () => (await service.find(shelfType, id)) === undefined, {
    what: 'the end',
    deadlineMs: 30_000,
    intervalMs: 5,
  });
  stop.abort();
  await running;
});

test('an id is never worked on twice at once, and a change during its run makes one more run', async () => {
  const stop = new AbortController();
  const source = sourceOf(['a', 'b']);
  const runs: string[] = [];
  const active = new Set<string>();
  const running = runReconciler({
    name: 'test',
    sources: [source],
    log,
    signal: stop.signal,
    async reconcile(id) {
      assert.equal(active.has(id), false);
      active.add(id);
      runs.push(id);
      if (runs.length <= 2) for (let i = 0; i < 5; i += 1) source.add('a');
      await systemClock.sleep(5);
      active.delete(id);
    },
  });
  await waitFor(() => runs.length === 3 && active.size === 0, {
    what: 'three runs',
    deadlineMs: 30_000,
    intervalMs: 5,
  });
  stop.abort();
  await running;
  assert.deepEqual(runs.sort(), ['a', 'a', 'b']);
});

test('at most so many ids run at a time', async () => {
  const stop = new AbortController();
  const ids = Array.from({ length: 20 }, (_, i) => String(i));
  let active = 0;
  let most = 0;
  let done = 0;
  const running = runReconciler({
    name: 'test',
    sources: [sourceOf(ids)],
    log,
    signal: stop.signal,
    concurrency: 3,
    async reconcile() {
      active += 1;
      most = Math.max(most, active);
      await systemClock.sleep(1);
      active -= 1;
      done += 1;
    },
  });
  await waitFor(() => done === 20, { what: 'all', deadlineMs: 30_000, intervalMs: 5 });
  stop.abort();
  await running;
  assert.equal(most, 3);
});

test('a failed id is tried again after 0.1 s, and then ever later up to a minute', async () => {
  assert.deepEqual(
    [1, 2, 3, 4, 7, 8, 9, 1000].map((failures) => failurePauseMs(failures)),
    [100, 1000, 2000, 4000, 32_000, 60_000, 60_000, 60_000],
  );
  const outage = new FlynnError('unavailable', 'the store is away');
  assert.deepEqual(
    [1, 2, 3, 4, 5, 1000].map((failures) => failurePauseMs(failures, outage)),
    [100, 1000, 2000, 4000, 5000, 5000],
    'after an outage nobody waits long',
  );
  const stop = new AbortController();
  const source = sourceOf(['a']);
  const atMs: number[] = [];
  const said = new PassThrough({ encoding: 'utf8' });
  const running = runReconciler({
    name: 'test',
    sources: [source],
    log: createLogger('test', { destination: said }),
    signal: stop.signal,
    async reconcile() {
      atMs.push(performance.now());
      // Its own writes come back as changes: they must not make it spin.
      source.add('a');
      if (atMs.length === 1) throw new FlynnError('internal', 'not yet');
      stop.abort();
    },
  });
  await running;
  assert.equal(atMs.length, 2);
  const pauseMs = (atMs[1] ?? 0) - (atMs[0] ?? 0);
  assert.ok(pauseMs >= 95, `paused ${pauseMs} ms`);
  assert.match(String(said.read()), /reconciling a failed, trying again in 100 ms/);
});

test('every id is looked at again at the resync, and when it asks for it', async () => {
  const stop = new AbortController();
  const runs = new Map<string, number>();
  const running = runReconciler({
    name: 'test',
    sources: [sourceOf(['quiet', 'asking'])],
    log,
    signal: stop.signal,
    resyncMs: 300,
    async reconcile(id) {
      runs.set(id, (runs.get(id) ?? 0) + 1);
      return id === 'asking' ? { againInMs: 5 } : undefined;
    },
  });
  const isSeen = () => {
    const [quiet = 0, asking = 0] = [runs.get('quiet'), runs.get('asking')];
    return quiet >= 2 && asking > quiet + 3;
  };
  await waitFor(isSeen, { what: 'a resync, and more looks at who asks', deadlineMs: 30_000, intervalMs: 10 });
  stop.abort();
  await running;
});

test('an id that has nothing to do for months is not looked at all the time until then', async () => {
  const stop = new AbortController();
  const source = sourceOf(['idle', 'busy']);
  const runs = { idle: 0, busy: 0 };
  const running = runReconciler({
    name: 'test',
    sources: [source],
    log,
    signal: stop.signal,
    async reconcile(id) {
      if (id === 'idle') runs.idle += 1;
      else runs.busy += 1;
      return { againInMs: id === 'idle' ? 90 * 24 * 3_600_000 : 1 };
    },
  });
  await waitFor(() => runs.busy >= 20, { what: 'looks at the other', deadlineMs: 30_000, intervalMs: 1 });
  assert.equal(runs.idle, 1);
  stop.abort();
  await running;
});

test('stopping aborts what runs and waits for it', async () => {
  const stop = new AbortController();
  let ended = false;
  const running = runReconciler({
    name: 'test',
    sources: [sourceOf(['a'])],
    log,
    signal: stop.signal,
    async reconcile(_, { signal }) {
      stop.abort();
      await pause(10_000, signal);
      ended = true;
    },
  });
  await running;
  assert.equal(ended, true);
});

test('a mirror is a source of the ids its entries are about, before and after a change', async () => {
  await using store = openTestStore();
  const put = async (key: string, app: string) =>
    (await store.transact({ then: [{ put: key, value: JSON.stringify({ app }) }] })).revision;
  await put('/r/1', 'one');
  const decode = (json: unknown) => JSON.stringify(json);
  await using mirror = await openMirror({ store, prefix: '/r/', decode, log });
  const source = keysOf(mirror, (value) => [value]);
  const seen: string[] = [];
  const unsubscribe = source.subscribe((id) => seen.push(id));
  assert.deepEqual([...source.all()], ['{"app":"one"}']);
  await mirror.reached(await put('/r/1', 'two'));
  unsubscribe();
  await mirror.reached(await put('/r/1', 'three'));
  assert.deepEqual(seen.sort(), ['{"app":"one"}', '{"app":"two"}']);
});
