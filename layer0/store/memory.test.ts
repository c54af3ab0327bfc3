import assert from 'node:assert/strict';
import { test } from 'node:test';
import { storeConformance } from './conformance.ts';
import { restoreConformance } from './conformance-restore.ts';
import type { RestorableStore } from './conformance-restore.ts';
import { createMemoryStore } from './memory.ts';

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
