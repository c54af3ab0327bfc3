import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '@flynn/kit/clock';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import type { Store } from '@flynn/store/store';
import { openTestStore } from '@flynn/store/testing';
import { leaderKey, runAsLeader } from './lease.ts';
import type { LeaderContext } from './lease.ts';

const log = silentLogger();

type Candidate = { name: string; store: Store; stop: AbortController; terms: LeaderContext[]; isLeading: boolean };

function candidate(name: string, store: Store): Candidate {
  return { name, store, stop: new AbortController(), terms: [], isLeading: false };
}

function run(one: Candidate): Promise<void> {
  return runAsLeader({
    store: one.store,
    name: 'test',
    ttlSeconds: 0.2,
    signal: one.stop.signal,
    log,
    async lead(context) {
      one.isLeading = true;
      one.terms.push(context);
      await new Promise<void>((resolve) => context.signal.addEventListener('abort', () => resolve(), { once: true }));
      one.isLeading = false;
    },
  });
}

/** A leader's write, fenced by its term. */
async function write(one: Candidate, store: Store): Promise<boolean> {
  const epoch = one.terms.at(-1)?.epochCompare;
  assert.ok(epoch !== undefined);
  return (await store.transact({ compare: [epoch], then: [{ put: '/work', value: one.name }] })).succeeded;
}

const wait = { deadlineMs: 30_000, intervalMs: 5 };

test('of several exactly one leads, and when it stops another takes over at once', async () => {
  await using store = openTestStore();
  const all = ['a', 'b', 'c'].map((name) => candidate(name, store));
  const running = all.map((one) => run(one));
  for (let left = all.length; left > 0; left -= 1) {
    const leader = await waitFor(() => all.find((one) => one.isLeading), { what: 'a leader', ...wait });
    await systemClock.sleep(20);
    assert.equal(all.filter((one) => one.isLeading).length, 1);
    assert.equal(await write(leader, store), true);
    leader.stop.abort();
    await waitFor(() => !leader.isLeading, { what: 'its end', ...wait });
  }
  await Promise.all(running);
  await waitFor(async () => (await store.get(leaderKey('test'))) === undefined, { what: 'an empty seat', ...wait });
});

test('a leader that is cut off loses its term, and its late writes are refused', async () => {
  await using store = openTestStore();
  await using otherStore = store.connect();
  const first = candidate('first', store);
  const second = candidate('second', otherStore);
  const running = [run(first)];
  await waitFor(() => first.isLeading, { what: 'the first leader', ...wait });
  running.push(run(second));
  store.disconnect();
  await waitFor(() => second.isLeading, { what: 'the second leader', ...wait });
  await waitFor(() => first.terms[0]?.signal.aborted, { what: 'the end of the first term', ...wait });
  store.reconnect();
  assert.equal(await write(first, store), false);
  assert.equal(await write(second, otherStore), true);
  assert.equal(first.terms.length, 1);
  first.stop.abort();
  second.stop.abort();
  await Promise.all(running);
});

test('a term that fails is followed by another', async () => {
  await using store = openTestStore();
  const stop = new AbortController();
  let terms = 0;
  const epochs = new Set<number>();
  await runAsLeader({
    store,
    name: 'test',
    ttlSeconds: 1,
    signal: stop.signal,
    log,
    async lead({ epochCompare }) {
      terms += 1;
      if ('createRevision' in epochCompare) epochs.add(epochCompare.createRevision);
      if (terms === 1) throw new Error('a bad day');
      if (terms === 3) stop.abort();
    },
  });
  assert.equal(terms, 3);
  assert.equal(epochs.size, 3);
});

for (const { title, end } of [
  { title: 'fails', end: () => Promise.reject(new Error('a bad day')) },
  { title: 'gives its seat up', end: () => Promise.resolve() },
]) {
  test(`a term that ${title} is told to whatever it left behind`, async () => {
    await using store = openTestStore();
    const stop = new AbortController();
    const terms: AbortSignal[] = [];
    let wereOver: boolean[] = [];
    await runAsLeader({
      store,
      name: 'test',
      ttlSeconds: 1,
      signal: stop.signal,
      log,
      async lead({ signal }) {
        terms.push(signal);
        if (terms.length === 1) return end();
        wereOver = terms.map(({ aborted }) => aborted);
        return stop.abort();
      },
    });
    assert.deepEqual(wereOver, [true, false]);
  });
}
