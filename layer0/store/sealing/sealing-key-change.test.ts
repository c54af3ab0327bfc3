import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { createMemoryStore } from '../memory.ts';
import type { MemoryStore } from '../memory.ts';
import { storeWith } from '../store-with.ts';
import { isSealed, sealKeyOf } from './envelope.ts';
import { rewriteAll } from './rewrite.ts';
import { addKey, keysOf, makeRing, readRing, retireOldKeys, sealedUnder } from './ring.ts';
import { SealedStore } from './sealed-store.ts';
import { announceSealingKey, sealUnder } from './sealing-key-change.ts';

const [former, next] = ['the former sealing key', 'the new sealing key'];
const [formerKey, nextKey] = [former, next].map(sealKeyOf) as [
  ReturnType<typeof sealKeyOf>,
  ReturnType<typeof sealKeyOf>,
];
const key = '/flynn/resource/app/a';
const secret = 'postgres://ann:hunter2@db/shop';
const making = { newId: randomUUID, now: new Date(0) };
const both = { known: [formerKey, nextKey], ...making };

const reader = (raw: MemoryStore, ...keys: string[]): SealedStore =>
  new SealedStore(raw, { sealingKeys: async () => keys, log: silentLogger() });

async function ringOf(raw: MemoryStore) {
  const stored = await readRing(raw);
  assert.ok(stored);
  return stored;
}

async function sealedWorld(): Promise<MemoryStore> {
  const raw = createMemoryStore();
  await makeRing(raw, { sealingKey: formerKey, ...making });
  await retireOldKeys(raw, await ringOf(raw));
  await reader(raw, former).transact({ then: [{ put: key, value: secret }] });
  return raw;
}

test('whoever has both reads in every phase, with the former alone before and the new alone afterwards', async () => {
  const raw = await sealedWorld();
  const value = async (...keys: string[]) => (await reader(raw, ...keys).get(key))?.value;
  await announceSealingKey(raw, nextKey);
  assert.deepEqual([await value(former), await value(former, next), await value(next, former)], Array(3).fill(secret));
  await assert.rejects(value(next), (error) => hasCode(error, 'denied'));
  assert.equal(await sealUnder(raw, nextKey, both), true);
  assert.deepEqual([await value(next), await value(former, next)], [secret, secret]);
  await assert.rejects(value(former), (error) => hasCode(error, 'denied') && error.message.includes(nextKey.id));
  const { ring } = await ringOf(raw);
  assert.deepEqual([sealedUnder(ring), ring.next, ring.keys.length], [nextKey.id, undefined, 2]);
  assert.ok(ring.rewriting !== undefined);
});

test('each part may be done again, and is refused where it cannot be', async () => {
  const raw = await sealedWorld();
  await announceSealingKey(raw, nextKey);
  const { revision } = await ringOf(raw);
  await announceSealingKey(raw, nextKey);
  assert.equal((await ringOf(raw)).revision, revision);
  await announceSealingKey(raw, undefined);
  assert.equal((await ringOf(raw)).ring.next, undefined);
  await announceSealingKey(raw, nextKey);
  await assert.rejects(sealUnder(raw, nextKey, { ...both, known: [nextKey] }), (error) => hasCode(error, 'denied'));
  await sealUnder(raw, nextKey, both);
  const sealed = await ringOf(raw);
  assert.equal(await sealUnder(raw, nextKey, { ...both, known: [nextKey] }), false);
  await announceSealingKey(raw, nextKey);
  assert.deepEqual(await ringOf(raw), sealed);
  await assert.rejects(announceSealingKey(createMemoryStore(), nextKey), (error) => hasCode(error, 'conflict'));
});

test('who had the former sealing key, and a disk of that time, opens nothing that was sealed anew', async () => {
  const raw = await sealedWorld();
  // What they have: every data key of that time.
  const stolen = keysOf((await ringOf(raw)).ring, [formerKey]);
  await announceSealingKey(raw, nextKey);
  await sealUnder(raw, nextKey, both);
  const walked = await rewriteAll(reader(raw, next), { signal: AbortSignal.timeout(60_000) });
  assert.deepEqual([walked.rewritten, walked.left], [1, 0]);
  await retireOldKeys(raw, await ringOf(raw));
  const stored = (await raw.get(key))?.value ?? '';
  assert.ok(isSealed(stored));
  for (const stolenKey of stolen.values()) assert.throws(() => stolenKey.open(key, stored));
  assert.equal((await reader(raw, next).get(key))?.value, secret);
  const ids = (await ringOf(raw)).ring.keys.map(({ id }) => id);
  assert.ok(ids.every((id) => !stolen.has(id)));
});

test('keys that are changed at the same moment are sealed under the new one, too', async () => {
  const raw = await sealedWorld();
  await announceSealingKey(raw, nextKey);
  const added = await addKey(raw, { sealingKeys: [nextKey, formerKey], ...making });
  assert.equal(sealedUnder(added), formerKey.id, 'under the one that all have');
  assert.equal(added.next, nextKey.id);
  let isFirst = true;
  const racing = storeWith(raw, {
    async get(asked, options) {
      const entry = await raw.get(asked, options);
      if (isFirst) {
        isFirst = false;
        await retireOldKeys(raw, await ringOf(raw));
      }
      return entry;
    },
  });
  assert.equal(await sealUnder(racing, nextKey, both), true);
  const { ring } = await ringOf(raw);
  assert.ok(ring.keys.some(({ id }) => id === added.current));
  assert.equal(ring.keys.length, 2);
  assert.equal(keysOf(ring, [nextKey]).size, 2);
});

test('a ring that was read just before it was sealed anew is read again', async () => {
  const raw = await sealedWorld();
  let keys: readonly string[] = [former];
  const racing = new SealedStore(raw, {
    async sealingKeys() {
      if (keys.includes(former)) {
        keys = [next];
        await sealUnder(raw, nextKey, both);
      }
      return keys;
    },
    log: silentLogger(),
  });
  assert.equal((await racing.get(key))?.value, secret);
});
