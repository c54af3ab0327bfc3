import assert from 'node:assert/strict';
import { test } from 'node:test';
import { storeConformance } from './conformance.ts';
import { restoreConformance } from './conformance-restore.ts';
import type { RestorableStore } from './conformance-restore.ts';
import { createMemoryStore } from './memory.ts';
import { CompactedError } from './store.ts';

async function open(): Promise<RestorableStore> {
  const store = createMemoryStore();
  const peer = store.connect();
  return {
    store,
    peer,
    disconnect: async () => {
      store.disconnect();
      return async () => store.reconnect();
    },
    backUp: async () => {
      const image = store.save();
      return async () => store.restore(image);
    },
    [Symbol.asyncDispose]: async () => {
      await store.close();
      await peer.close();
    },
  };
}

storeConformance('the memory store', open, { leaseTtlSeconds: 0.2 });
restoreConformance('the memory store', open, { leaseTtlSeconds: 0.2 });

test('with an injected clock a lease expires exactly at its TTL after the disconnect', async () => {
  let nowMs = 0;
  await using store = createMemoryStore({ now: () => nowMs });
  await using peer = store.connect();
  const lease = await store.grantLease({ ttlSeconds: 5 });
  await store.transact({ then: [{ put: '/a', value: '', lease: lease.id }] });
  nowMs = 60_000;
  assert.notEqual(await peer.get('/a'), undefined);
  store.disconnect();
  nowMs += 4_999;
  assert.notEqual(await peer.get('/a'), undefined);
  nowMs += 1;
  assert.equal(await peer.get('/a'), undefined);
  assert.equal(lease.lost.aborted, true);
});

test('a client that comes back before its TTL keeps its lease', async () => {
  let nowMs = 0;
  await using store = createMemoryStore({ now: () => nowMs });
  const lease = await store.grantLease({ ttlSeconds: 5 });
  store.disconnect();
  nowMs = 4_000;
  store.reconnect();
  nowMs = 60_000;
  store.expireLeases();
  assert.equal(lease.lost.aborted, false);
});

test('a watch is told nothing of other prefixes but how far it is, and is not behind a compaction for that', async () => {
  await using store = createMemoryStore();
  const put = async (key: string) => (await store.transact({ then: [{ put: key, value: '' }] })).revision;
  const start = await put('/w/a');
  const { signal } = new AbortController();
  const watch = store.watch('/w/', { after: start, signal })[Symbol.asyncIterator]();
  const next = async () => (await watch.next()).value;
  const first = next();
  for (let i = 0; i < 5; i += 1) await put('/other');
  await store.compact(await put('/other'));
  const told = await put('/w/b');
  assert.deepEqual([(await first)?.revision, (await first)?.changes.length], [told, 1]);
  const second = next();
  const other = await put('/other');
  store.tellProgress();
  assert.deepEqual(await second, { revision: other, changes: [] });
  // Over a disconnect it knows no more than it has told.
  const third = next();
  await put('/other');
  await new Promise((resolve) => setImmediate(resolve));
  await using peer = store.connect();
  store.disconnect();
  await peer.compact((await peer.transact({ then: [{ put: '/other', value: '' }] })).revision);
  store.reconnect();
  await assert.rejects(third, CompactedError);
});
