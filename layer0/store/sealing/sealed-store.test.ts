import { storeWith } from '../store-with.ts';
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { storeConformance } from '../conformance.ts';
import { restoreConformance } from '../conformance-restore.ts';
import type { RestorableStore } from '../conformance-restore.ts';
import { createMemoryStore } from '../memory.ts';
import type { MemoryStore } from '../memory.ts';
import { openMirror } from '../mirror.ts';
import { isSealed, keyIdOf, sealKeyOf, sealedLength } from './envelope.ts';
import { freshMs } from './known-keys.ts';
import { rewriteAll } from './rewrite.ts';
import { addKey, makeRing, readRing, retireOldKeys, ringKey } from './ring.ts';
import { SealedStore } from './sealed-store.ts';
import type { Store } from '../store.ts';

const text = 'a sealing key of a cluster for tests';
const log = silentLogger();
const secret = 'postgres://ann:hunter2@db/shop';

type World = {
  raw: MemoryStore;
  store: SealedStore;
  connect: (options?: { key?: string | readonly string[] }) => SealedStore;
  later: (ms: number) => void;
};

function openWorld(): World {
  const raw = createMemoryStore();
  let nowMs = 0;
  const connect = ({ key = text }: { key?: string | readonly string[] } = {}): SealedStore =>
    new SealedStore(raw, { sealingKeys: async () => [key].flat(), log, now: () => nowMs });
  return { raw, connect, store: connect(), later: (ms) => void (nowMs += ms) };
}

const maker = () => ({ sealingKey: sealKeyOf(text), newId: randomUUID, now: new Date(0) });

async function put(store: SealedStore | MemoryStore, key: string, value: string): Promise<number> {
  const { succeeded, revision } = await store.transact({ then: [{ put: key, value }] });
  assert.equal(succeeded, true);
  return revision;
}

async function textOf(raw: MemoryStore): Promise<string> {
  return (await raw.list('')).entries.map(({ key, value }) => `${key} ${value}\n`).join('');
}

/** The suite begins with an empty store, at its first revision: the ring is kept apart from it. */
function withRing(store: Store, ring: Store): Store {
  return storeWith(store, { get: (key, options) => (key === ringKey ? ring.get(key) : store.get(key, options)) });
}

async function openSealed(): Promise<RestorableStore> {
  const raw = createMemoryStore();
  const peer = raw.connect();
  const ring = createMemoryStore();
  await makeRing(ring, maker());
  const sealed = (inner: Store) => new SealedStore(withRing(inner, ring), { sealingKeys: async () => [text], log });
  const [store, other] = [sealed(raw), sealed(peer)];
  // As every client that has worked already.
  await Promise.all([store.currentKeyId({}), other.currentKeyId({})]);
  return {
    store,
    peer: other,
    disconnect: async () => {
      raw.disconnect();
      return async () => raw.reconnect();
    },
    backUp: async () => {
      const image = raw.save();
      return async () => raw.restore(image);
    },
    [Symbol.asyncDispose]: async () => {
      await raw.close();
      await peer.close();
    },
  };
}

storeConformance('a sealed memory store', openSealed, { leaseTtlSeconds: 0.2 });
restoreConformance('a sealed memory store', openSealed, { leaseTtlSeconds: 0.2 });

test('nothing of a value is in the store, however it is written, and every way of reading has it', async () => {
  const { raw, store } = openWorld();
  await makeRing(raw, maker());
  const key = '/flynn/resource/release/r1';
  const revision = await put(store, key, JSON.stringify({ secret }));
  await put(store, '/flynn-audit/2026-01-01/a', secret);
  await put(store, '/something/that/nobody/thought/of', secret);
  assert.equal((await textOf(raw)).includes('hunter2'), false);
  assert.equal((await store.get(key))?.value, JSON.stringify({ secret }));
  assert.deepEqual((await store.list('/flynn/')).entries.find((entry) => entry.key === key)?.modRevision, revision);
  const { reads } = await store.transact({ then: [{ get: key }, { list: '/flynn-audit/' }] });
  assert.deepEqual(
    reads.map((entries) => entries[0]?.value),
    [JSON.stringify({ secret }), secret],
  );
  await using mirror = await openMirror({ store, prefix: '/flynn/resource/', decode: (json) => json, log });
  assert.deepEqual(mirror.snapshot.entries.get('release/r1')?.value, { secret });
  await put(store, key, JSON.stringify({ secret: 'another' }));
  await mirror.reached((await store.list('/flynn/resource/')).revision);
  assert.deepEqual(mirror.snapshot.entries.get('release/r1')?.value, { secret: 'another' });
});

test('what others have to read without a key stays in clear', async () => {
  const { raw, store } = openWorld();
  await makeRing(raw, maker());
  await put(store, '/flynn/cell/claims/h1', '{}');
  assert.equal((await raw.get('/flynn/cell/claims/h1'))?.value, '{}');
});

test('a value that was copied to another path, or changed, is handed on unopened', async () => {
  const { raw, store } = openWorld();
  await makeRing(raw, maker());
  await put(store, '/flynn/resource/release/mine', secret);
  const stolen = (await raw.get('/flynn/resource/release/mine'))?.value ?? '';
  await put(raw, '/flynn/resource/release/theirs', stolen);
  assert.equal((await store.get('/flynn/resource/release/theirs'))?.value, stolen);
  const at = stolen.length - 30;
  const flipped = `${stolen.slice(0, at)}${stolen[at] === 'A' ? 'B' : 'A'}${stolen.slice(at + 1)}`;
  await put(raw, '/flynn/resource/release/mine', flipped);
  assert.equal((await store.get('/flynn/resource/release/mine'))?.value, flipped);
});

test('another sealing key, or none, is told in words', async () => {
  const { raw, store, connect } = openWorld();
  await makeRing(raw, maker());
  await put(store, '/flynn/resource/app/a', secret);
  const stranger = connect({ key: 'another cluster, another key' });
  await assert.rejects(stranger.get('/flynn/resource/app/a'), (error) => {
    assert.ok(hasCode(error, 'denied'));
    assert.match(String(error), new RegExp(`${sealKeyOf(text).id}.*${sealKeyOf('another cluster, another key').id}`));
    return true;
  });
  await assert.rejects(put(stranger, '/flynn/resource/app/b', secret), (error) => hasCode(error, 'denied'));
  const bare = new SealedStore(raw, { sealingKeys: async () => [], log });
  await assert.rejects(bare.list('/flynn/resource/'), /here is no key: flynn-host bootstrap \(npm run up\) brings it/);
  assert.deepEqual(await bare.list('/flynn/cell/hosts/'), await raw.list('/flynn/cell/hosts/'));
});

test('what was written before there was a key is read, and sealed by a walk; leases and contents stay', async () => {
  const { raw, store, later } = openWorld();
  const lease = await raw.grantLease({ ttlSeconds: 60 });
  await raw.transact({ then: [{ put: '/flynn/resource/lock', value: secret, lease: lease.id }] });
  for (let index = 0; index < 450; index += 1) await put(store, `/flynn/resource/app/${index}`, `${secret} ${index}`);
  for (let index = 0; index < 450; index += 1) await put(raw, `/flynn/cell/claims/${index}`, '{}');
  assert.equal((await textOf(raw)).includes('hunter2'), true);
  await makeRing(raw, maker());
  assert.equal((await store.get('/flynn/resource/app/7'))?.value, `${secret} 7`);
  later(freshMs + 1);
  const signal = AbortSignal.timeout(60_000);
  assert.deepEqual(await rewriteAll(store, { signal }), { rewritten: 451, left: 0, unreadable: [] });
  assert.deepEqual(await rewriteAll(store, { signal }), { rewritten: 0, left: 0, unreadable: [] });
  assert.equal((await textOf(raw)).includes('hunter2'), false);
  assert.equal((await store.get('/flynn/resource/app/7'))?.value, `${secret} 7`);
  assert.deepEqual((await raw.get('/flynn/resource/lock'))?.lease, lease.id);
  await lease.revoke();
});

test('keys change: old values are read with the old one until all are rewritten, then it is gone', async () => {
  const { raw, store, connect, later } = openWorld();
  await makeRing(raw, maker());
  const first = await store.currentKeyId({});
  await put(store, '/flynn/resource/app/a', secret);
  await assert.rejects(addKey(raw, { ...maker(), sealingKeys: [sealKeyOf(text)] }), /is not through/);
  const made = await readRing(raw);
  assert.ok(made !== undefined && (await retireOldKeys(raw, made)));
  const next = await addKey(raw, { ...maker(), sealingKeys: [sealKeyOf(text)] });
  const other = connect();
  await put(other, '/flynn/resource/app/b', secret);
  // Who knows the ring of a moment ago may write with its key still, and reads what the new one sealed.
  assert.equal((await store.get('/flynn/resource/app/b'))?.value, secret);
  later(freshMs + 1);
  await put(store, '/flynn/resource/app/c', secret);
  const idOf = async (name: string) => keyIdOf((await raw.get(`/flynn/resource/app/${name}`))?.value ?? '');
  assert.deepEqual([await idOf('a'), await idOf('b'), await idOf('c')], [first, next.current, next.current]);
  await rewriteAll(store, { signal: AbortSignal.timeout(60_000) });
  const stored = await readRing(raw);
  assert.ok(stored !== undefined && (await retireOldKeys(raw, stored)));
  assert.deepEqual(
    (await readRing(raw))?.ring.keys.map(({ id }) => id),
    [next.current],
  );
  for (const name of ['a', 'b', 'c']) assert.equal((await connect().get(`/flynn/resource/app/${name}`))?.value, secret);
});

test('an answer on its way from before a change of keys does not stand for the keys as they are now', async () => {
  const { raw, connect } = openWorld();
  await makeRing(raw, maker());
  const made = await readRing(raw);
  assert.ok(made !== undefined && (await retireOldKeys(raw, made)));
  const held = Promise.withResolvers<void>();
  const asked = Promise.withResolvers<void>();
  let isFirst = true;
  const slow = storeWith(raw, {
    async get(key, options) {
      const entry = await raw.get(key, options);
      if (key === ringKey && isFirst) {
        isFirst = false;
        asked.resolve();
        await held.promise;
      }
      return entry;
    },
  });
  const store = new SealedStore(slow, { sealingKeys: async () => [text], log });
  const before = store.currentKeyId({});
  await asked.promise;
  const { current } = await addKey(raw, { ...maker(), sealingKeys: [sealKeyOf(text)] });
  const other = connect();
  await put(other, '/flynn/resource/app/a', secret);
  const read = store.get('/flynn/resource/app/a');
  held.resolve();
  assert.equal((await read)?.value, secret);
  assert.notEqual(await before, undefined);
  assert.equal(await store.currentKeyId({}), current);
});

test('a walk neither undoes what is written meanwhile nor stops at what does not open', async () => {
  const { raw, store } = openWorld();
  await makeRing(raw, maker());
  await put(store, '/flynn/resource/app/a', secret);
  const sealed = (await raw.get('/flynn/resource/app/a'))?.value ?? '';
  await put(raw, '/flynn/resource/app/copy', sealed.replace(/:[^:]{36}:/, ':00000000-0000-7000-8000-000000000000:'));
  await put(raw, '/flynn/resource/app/clear', 'before');
  const transact = raw.transact.bind(raw);
  raw.transact = async (transaction, options) => {
    raw.transact = transact;
    await put(raw, '/flynn/resource/app/clear', 'meanwhile');
    return await transact(transaction, options);
  };
  const signal = AbortSignal.timeout(60_000);
  assert.deepEqual(await rewriteAll(store, { signal }), {
    rewritten: 0,
    left: 1,
    unreadable: ['/flynn/resource/app/copy'],
  });
  assert.equal((await rewriteAll(store, { signal })).rewritten, 1);
  assert.equal((await store.get('/flynn/resource/app/clear'))?.value, 'meanwhile');
});

test('the largest value that a store takes is taken sealed', async () => {
  const { raw, store } = openWorld();
  await makeRing(raw, maker());
  const largest = 'ü'.repeat(512 * 1024);
  await put(store, '/flynn/resource/app/a', largest);
  const stored = (await raw.get('/flynn/resource/app/a'))?.value ?? '';
  assert.ok(isSealed(stored) && stored.length <= sealedLength(1024 * 1024));
  assert.equal((await store.get('/flynn/resource/app/a'))?.value, largest);
  await assert.rejects(put(store, '/flynn/resource/app/a', `${largest}x`), (error) => hasCode(error, 'invalid'));
});
