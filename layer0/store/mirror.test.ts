import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { hasCode } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { waitFor, withDeadline } from '@flynn/kit/retry';
import { z } from 'zod';
import { decodeJson } from './codec.ts';
import { emptyState, findDrift, foldBatch, foldListing } from './mirror-state.ts';
import { openMirror } from './mirror.ts';
import type { Mirror, MirrorChange } from './mirror.ts';
import type { ChangeBatch, Store } from './store.ts';
import { openTestStore } from './testing.ts';

const log = silentLogger();
const shape = z.object({ n: z.number() });
type Value = z.output<typeof shape>;

function open(store: Store, options: { resyncMs?: number } = {}): Promise<Mirror<Value>> {
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

test('changes() gives the current snapshot at once and then only the latest', async () => {
  await using store = openTestStore();
  await put(store, '/m/a', 0);
  await using mirror = await open(store);
  const seen: (number | undefined)[] = [];
  for await (const snapshot of mirror.changes({ signal: withDeadline(5_000) })) {
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
  await mirror.reached((await store.transact({ then: [{ put: '/m/good', value: '[]' }] })).revision);
  assert.deepEqual(contentOf(mirror), {});
  await mirror.reached(await put(store, '/m/bad', 2));
  assert.deepEqual(contentOf(mirror), { bad: 2 });
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

test('a resync counts and heals what a lossy watch left out', async () => {
  await using real = openTestStore();
  await using mirror = await open(lossy(real), { resyncMs: 20 });
  await put(real, '/m/lost', 1);
  await mirror.reached(await put(real, '/m/a', 1));
  await waitFor(() => contentOf(mirror)['lost'] === 1, { what: 'the healing', deadlineMs: 5_000 });
  assert.equal(mirror.driftCount, 1);
});

/** A store whose watches drop every change to a key that ends in "lost". */
function lossy(store: Store): Store {
  const isKept = (key: string) => !key.endsWith('lost');
  async function* watch(...args: Parameters<Store['watch']>): AsyncGenerator<ChangeBatch> {
    for await (const batch of store.watch(...args)) {
      yield { ...batch, changes: batch.changes.filter((c) => isKept(c.type === 'put' ? c.entry.key : c.key)) };
    }
  }
  return {
    watch,
    get: (...args) => store.get(...args),
    list: (...args) => store.list(...args),
    transact: (...args) => store.transact(...args),
    grantLease: (...args) => store.grantLease(...args),
    compact: (...args) => store.compact(...args),
    close: () => store.close(),
    [Symbol.asyncDispose]: () => store[Symbol.asyncDispose](),
  };
}

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
      for await (const batch of store.watch('/m/', { after: 1, signal: withDeadline(1_000) })) {
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
