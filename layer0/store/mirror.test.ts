import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { waitFor, withDeadline } from '@flynn/kit/retry';
import { z } from 'zod';
import { decodeJson } from './codec.ts';
import { emptyState, findDrift, foldBatch, foldListing } from './mirror-state.ts';
import { openMirror } from './mirror.ts';
import type { Mirror, MirrorChange, MirrorOptions } from './mirror.ts';
import { storeWith } from './store-with.ts';
import type { Store } from './store.ts';
import { lossyStore, openTestStore } from './testing.ts';

const log = silentLogger();
const shape = z.object({ n: z.number() });
type Value = z.output<typeof shape>;

function open(store: Store, options: Partial<MirrorOptions<Value>> = {}): Promise<Mirror<Value>> {
  return openMirror({ store, prefix: '/m/', decode: (json) => shape.parse(json), log, ...options });
}

async function put(store: Store, key: string, n: number): Promise<number> {
  return (await store.transact({ then: [{ put: key, value: JSON.stringify({ n }) }] })).revision;
}

function contentOf(mirror: Mirror<Value>): Record<string, number> {
  return Object.fromEntries([...mirror.snapshot.entries].map(([key, { value }]) => [key, value.n]));
}

test('a mirror holds its prefix from the start and follows changes', async () => {
  await using store = openTestStore();
  await put(store, '/m/a', 1);
  await put(store, '/other', 1);
  await using mirror = await open(store);
  assert.deepEqual(contentOf(mirror), { a: 1 });
  await put(store, '/m/b', 2);
  await store.transact({ then: [{ delete: '/m/a' }] });
  const last = await put(store, '/m/b', 3);
  const snapshot = await mirror.reached(last);
  assert.equal(snapshot.revision, last);
  assert.deepEqual(contentOf(mirror), { b: 3 });
  assert.equal(snapshot.entries.get('b')?.createRevision, last - 2);
  assert.equal(snapshot.entries.get('b')?.modRevision, last);
});

test('snapshots and their values are frozen, and an old one stays as it was', async () => {
  await using store = openTestStore();
  await put(store, '/m/a', 1);
  await using mirror = await open(store);
  const old = mirror.snapshot;
  await mirror.reached(await put(store, '/m/a', 2));
  const versioned = old.entries.get('a');
  assert.equal(versioned?.value.n, 1);
  for (const value of [old, versioned, versioned?.value]) assert.ok(Object.isFrozen(value));
  assert.equal('set' in old.entries, false);
});

test('what a snapshot hands out cannot be changed; a copy can, and changes nothing', async () => {
  await using store = openTestStore();
  const nested = z.object({ list: z.array(z.object({ n: z.number() })) });
  const revision = (await store.transact({ then: [{ put: '/m/a', value: '{"list":[{"n":1}]}' }] })).revision;
  await using mirror = await openMirror({ store, prefix: '/m/', decode: (json) => nested.parse(json), log });
  const { entries } = mirror.snapshot;
  const versioned = entries.get('a');
  assert.ok(versioned !== undefined);
  const { value } = versioned;
  for (const target of [mirror.snapshot, entries, versioned, value, value.list, value.list[0]]) {
    assert.throws(() => Object.assign(target ?? {}, { n: 2, size: 2, list: [], 0: 2, revision: 2 }), TypeError);
  }
  const copy = structuredClone(value);
  copy.list.push({ n: 2 });
  assert.deepEqual(mirror.snapshot.entries.get('a'), {
    value: { list: [{ n: 1 }] },
    modRevision: revision,
    createRevision: revision,
  });
});

test('reached() waits for its revision, and the snapshot from before stays what it was', async () => {
  await using store = openTestStore();
  await using peer = store.connect();
  const first = await put(store, '/m/a', 1);
  await using mirror = await open(store);
  const before = mirror.snapshot;
  store.disconnect();
  const second = await put(peer, '/m/a', 2);
  let isReached = false;
  const waiting = mirror.reached(second).then((snapshot) => {
    isReached = true;
    return snapshot;
  });
  assert.equal((await mirror.reached(first)).revision, first);
  assert.equal(isReached, false);
  store.reconnect();
  const snapshot = await waiting;
  assert.ok(snapshot.revision >= second);
  assert.equal(snapshot.entries.get('a')?.value.n, 2);
  assert.deepEqual([before.revision, before.entries.get('a')?.value.n], [first, 1]);
});

test('changes() gives the current snapshot at once and then only the latest', async () => {
  await using store = openTestStore();
  await put(store, '/m/a', 0);
  await using mirror = await open(store);
  const seen: (number | undefined)[] = [];
  for await (const snapshot of mirror.changes({ signal: withDeadline(60_000) })) {
    const n = snapshot.entries.get('a')?.value.n;
    seen.push(n);
    if (n === 50) break;
    if (n !== 0) continue;
    let last = 0;
    for (let i = 1; i <= 50; i += 1) last = await put(store, '/m/a', i);
    await mirror.reached(last);
  }
  assert.deepEqual(seen, [0, 50]);
});

test('changes() is not woken by revisions about other prefixes', async () => {
  await using store = openTestStore();
  await using mirror = await open(store);
  const abort = new AbortController();
  let wakes = 0;
  const reading = (async () => {
    for await (const snapshot of mirror.changes({ signal: abort.signal })) wakes += snapshot.revision >= 0 ? 1 : 0;
  })();
  await mirror.reached(await put(store, '/other', 1));
  await mirror.reached(await put(store, '/m/a', 1));
  abort.abort();
  await reading;
  assert.equal(wakes, 2);
});

test('a listener gets every change with what was before and after', async () => {
  await using store = openTestStore();
  await using mirror = await open(store);
  const changes: MirrorChange<Value>[] = [];
  const stop = mirror.onChange((change) => changes.push(change));
  mirror.onChange(() => {
    throw new Error('a broken listener');
  });
  await put(store, '/m/a', 1);
  await put(store, '/m/a', 2);
  await mirror.reached((await store.transact({ then: [{ delete: '/m/a' }] })).revision);
  stop();
  await mirror.reached(await put(store, '/m/a', 3));
  assert.deepEqual(changes, [
    { key: 'a', after: { n: 1 } },
    { key: 'a', before: { n: 1 }, after: { n: 2 } },
    { key: 'a', before: { n: 2 } },
  ]);
});

test('an entry that cannot be decoded is left out until it can', async () => {
  await using store = openTestStore();
  await put(store, '/m/good', 1);
  await store.transact({
    then: [
      { put: '/m/bad', value: 'not json' },
      { put: '/m/odd', value: '{"n":"x"}' },
    ],
  });
  await using mirror = await open(store);
  assert.deepEqual(contentOf(mirror), { good: 1 });
  assert.deepEqual([...mirror.unreadable].toSorted(), ['bad', 'odd']);
  await mirror.reached((await store.transact({ then: [{ put: '/m/good', value: '[]' }] })).revision);
  assert.deepEqual(contentOf(mirror), {});
  await mirror.reached(await put(store, '/m/bad', 2));
  assert.deepEqual(contentOf(mirror), { bad: 2 });
  assert.deepEqual([...mirror.unreadable].toSorted(), ['good', 'odd']);
});

test('which entries are there and cannot be decoded is told before what changed with it, and when they go', async () => {
  await using store = openTestStore();
  await store.transact({ then: [{ put: '/m/bad', value: 'not json' }] });
  const told: unknown[] = [];
  await using mirror = await open(store, { onUnreadable: (keys) => told.push([...keys].toSorted()) });
  mirror.onChange(({ key, after }) => told.push([key, after?.n]));
  // One by one: of what a watch brings together only the outcome is told.
  await mirror.reached(await put(store, '/m/good', 1));
  await mirror.reached((await store.transact({ then: [{ put: '/m/good', value: '{}' }] })).revision);
  await mirror.reached(await put(store, '/m/good', 2));
  await mirror.reached((await store.transact({ then: [{ delete: '/m/bad' }] })).revision);
  assert.deepEqual(told, [['bad'], ['good', 1], ['bad', 'good'], ['good', undefined], ['bad'], ['good', 2], []]);
});

test('what stands for an entry that cannot be decoded comes and goes like any value', async () => {
  await using store = openTestStore();
  await store.transact({ then: [{ put: '/m/bad', value: 'not json' }] });
  await using mirror = await open(store, { instead: () => ({ n: -1 }) });
  assert.deepEqual(contentOf(mirror), { bad: -1 });
  const changes: unknown[] = [];
  mirror.onChange(({ before, after }) => changes.push([before?.n, after?.n]));
  await put(store, '/m/bad', 2);
  await store.transact({ then: [{ put: '/m/bad', value: '{}' }] });
  await mirror.reached((await store.transact({ then: [{ delete: '/m/bad' }] })).revision);
  assert.deepEqual(changes, [
    [-1, 2],
    [2, -1],
    [-1, undefined],
  ]);
});

test('after a compaction during a disconnect a mirror lists again and tells the differences', async () => {
  await using store = openTestStore();
  await using peer = store.connect();
  await put(store, '/m/stays', 1);
  await put(store, '/m/goes', 1);
  await using mirror = await open(store);
  const changes: MirrorChange<Value>[] = [];
  mirror.onChange((change) => changes.push(change));
  store.disconnect();
  await put(peer, '/m/comes', 0);
  await put(peer, '/m/comes', 1);
  const last = (await peer.transact({ then: [{ delete: '/m/goes' }] })).revision;
  await put(peer, '/other', 1);
  await peer.compact(last);
  store.reconnect();
  await mirror.reached(last);
  assert.deepEqual(contentOf(mirror), { comes: 1, stays: 1 });
  assert.deepEqual(changes.map((change) => change.key).sort(), ['comes', 'goes']);
});

test('a resync compares keys alone, counts and heals what a lossy watch left out', async () => {
  await using real = openTestStore();
  const lossy = lossyStore(real, (key) => key.endsWith('lost'));
  const asked = new Set<boolean>();
  const store = storeWith(lossy, {
    list(prefix, options = {}) {
      if (options.revision !== undefined) asked.add(options.isKeysOnly ?? false);
      return lossy.list(prefix, options);
    },
  });
  await using mirror = await open(store, { resyncMs: 20 });
  await put(real, '/m/lost', 1);
  await mirror.reached(await put(real, '/m/a', 1));
  await waitFor(() => contentOf(mirror)['lost'] === 1, { what: 'the healing', deadlineMs: 30_000 });
  assert.equal(mirror.driftCount, 1);
  assert.deepEqual([...asked], [true], 'values are listed to heal, not to compare');
});

test('reached() on a store that cannot be reached ends with timeout, and with cancelled when aborted', async () => {
  await using store = openTestStore();
  await using peer = store.connect();
  await using mirror = await open(store);
  store.disconnect();
  const revision = await put(peer, '/m/a', 1);
  await assert.rejects(mirror.reached(revision, { deadlineMs: 50 }), (error) => hasCode(error, 'timeout'));
  await assert.rejects(mirror.reached(revision, { signal: AbortSignal.abort() }), (error) =>
    hasCode(error, 'cancelled'),
  );
  store.reconnect();
  assert.equal((await mirror.reached(revision)).entries.get('a')?.value.n, 1);
});

test('a closed mirror ends its readers', async () => {
  await using store = openTestStore();
  const mirror = await open(store);
  const waiting = mirror.reached(1_000);
  const reading = (async () => {
    let count = 0;
    for await (const snapshot of mirror.changes({ signal: new AbortController().signal }))
      count += snapshot.revision > 0 ? 1 : 0;
    return count;
  })();
  await Promise.all([assert.rejects(waiting, (error) => hasCode(error, 'cancelled')), mirror[Symbol.asyncDispose]()]);
  assert.equal(await reading, 1);
});

test('folding batches and folding listings at any revision come to the same state', async () => {
  const step = fc.record({ key: fc.integer({ min: 0, max: 8 }), n: fc.option(fc.integer(), { nil: undefined }) });
  const decoding = { prefix: '/m/', decode: (json: unknown) => shape.parse(json), log };
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 30 }), fc.nat(), async (steps, cutSeed) => {
      await using store = openTestStore();
      let revision = 1;
      for (const { key, n } of steps) {
        const operation =
          n === undefined ? { delete: `/m/${key}` } : { put: `/m/${key}`, value: JSON.stringify({ n }) };
        ({ revision } = await store.transact({ then: [operation] }));
      }
      if (revision === 1) return;
      const cut = 1 + (cutSeed % revision);
      const past = await store.list('/m/', { revision: cut });
      const listed = foldListing(emptyState<Value>(), past, decoding).state;
      let state = listed;
      // From before the listing: what it has brought already must not be applied again.
      for await (const batch of store.watch('/m/', { after: 1, signal: withDeadline(60_000) })) {
        state = foldBatch(state, batch, decoding).state;
        if (batch.revision >= revision) break;
      }
      const now = await store.list('/m/');
      assert.deepEqual(findDrift(state, now, '/m/'), []);
      assert.deepEqual(
        foldListing(listed, now, decoding).state.entries,
        foldListing(state, now, decoding).state.entries,
      );
    }),
    { numRuns: 50 },
  );
});

test('an entry that does not fit its schema is refused with its key and the reason', () => {
  assert.deepEqual(decodeJson(shape, '{"n":1}', '/a'), { n: 1 });
  assert.throws(
    () => decodeJson(shape, '{', '/a'),
    (error) => hasCode(error, 'invalid') && /\/a/.test(error.message),
  );
  assert.throws(
    () => decodeJson(shape, '{"n":""}', '/a'),
    (error) => hasCode(error, 'invalid') && /expected number/.test(error.message),
  );
});

test('a mirror goes on starting over when the restored store cannot be listed at first', async () => {
  await using store = openTestStore();
  await using peer = store.connect();
  await put(store, '/m/a', 1);
  const image = store.save();
  await put(store, '/m/a', 2);
  let failures = 0;
  const flaky: Store = {
    ...lossyStore(store, () => false),
    async list(...args) {
      const listing = await store.list(...args);
      if (listing.revision > image.revision) return listing;
      failures += 1;
      // The store moves past what the mirror knew: a watch from there would not notice any more.
      for (let i = 0; i < 5; i += 1) await put(peer, '/m/b', i);
      throw new FlynnError('unavailable', 'the store is starting');
    },
  };
  await put(peer, '/m/a', 3);
  await using mirror = await open(flaky);
  store.restore(image);
  await waitFor(() => contentOf(mirror)['a'] === 1, { what: 'the mirror to start over', deadlineMs: 30_000 });
  assert.equal(failures, 1);
  await mirror.reached((await peer.list('/')).revision);
  assert.deepEqual(contentOf(mirror), { a: 1, b: 4 });
});

test('a mirror of a store that was restored starts over, at a lower revision too', async () => {
  await using store = openTestStore();
  await put(store, '/m/a', 1);
  await put(store, '/m/b', 1);
  const image = store.save();
  await using mirror = await open(store);
  await store.transact({ then: [{ delete: '/m/a' }] });
  await put(store, '/m/c', 1);
  await mirror.reached(await put(store, '/m/b', 2));
  assert.deepEqual(contentOf(mirror), { b: 2, c: 1 });
  const told: string[] = [];
  mirror.onChange(({ key, after }) => told.push(`${key}=${after?.n ?? 'gone'}`));
  store.restore(image);
  await waitFor(() => mirror.snapshot.revision === image.revision, {
    what: 'the mirror to start over',
    deadlineMs: 30_000,
  });
  assert.deepEqual(contentOf(mirror), { a: 1, b: 1 });
  assert.deepEqual(told.sort(), ['a=1', 'b=1', 'c=gone']);
  const snapshot = await mirror.reached(await put(store, '/m/d', 4));
  assert.deepEqual(contentOf(mirror), { a: 1, b: 1, d: 4 });
  assert.equal(snapshot.revision, image.revision + 1);
});

test('reached() asks again when what it asked for is older than its revision, or could not be had', async () => {
  await using store = openTestStore();
  await put(store, '/m/a', 1);
  const gate = Promise.withResolvers<void>();
  let lists = 0;
  const slow = storeWith(store, {
    async list(...args) {
      lists += 1;
      if (lists === 3) throw new FlynnError('unavailable', 'an election');
      const listing = await store.list(...args);
      // The one that both below share.
      if (lists === 2) await gate.promise;
      return listing;
    },
  });
  await using mirror = await open(slow);
  const first = await put(store, '/other', 1);
  const waiting = Promise.all([mirror.reached(first), mirror.reached(first + 1)]);
  await waitFor(() => lists === 2, { what: 'the first listing', deadlineMs: 30_000, intervalMs: 2 });
  assert.equal(await put(store, '/other', 2), first + 1);
  gate.resolve();
  const [one, other] = await waiting;
  assert.equal(one.revision, first);
  assert.equal(other.revision, first + 1);
  assert.equal(lists, 4);
});
