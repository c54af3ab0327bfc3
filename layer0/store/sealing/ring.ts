/**
 * The keys that values are sealed with: in the store themselves, each sealed with the cluster's sealing key, which hosts and
 * controllers have and the store never does. So keys change without anybody being told: whoever meets one it does not know
 * reads the ring again.
 */
import { FlynnError } from '@flynn/kit/errors';
import { z } from 'zod';
import { decodeJson } from '../codec.ts';
import type { CallOptions, Compare, Entry, Revision, Store } from '../store.ts';
import { SealKey, keyIdOf, newSecretOfKey } from './envelope.ts';

export const ringKey = '/flynn/keys/ring';

const ringSchema = z.object({
  /** What is written from now on is sealed with this one. */
  current: z.string(),
  keys: z.array(z.object({ id: z.string(), madeAt: z.string(), secret: z.string() })).min(1),
  /** Until nothing is left that is in clear or sealed with another key than the current one. */
  rewriting: z.object({ since: z.string() }).optional(),
});
export type Ring = z.output<typeof ringSchema>;
export type StoredRing = Readonly<{ ring: Ring; revision: Revision }>;

/** undefined as long as nothing is sealed. */
export async function readRing(store: Pick<Store, 'get'>, options: CallOptions = {}): Promise<StoredRing | undefined> {
  const entry = await store.get(ringKey, options);
  return entry === undefined ? undefined : ringOf(entry);
}

function ringOf(entry: Entry): StoredRing {
  return { ring: decodeJson(ringSchema, entry.value, ringKey), revision: entry.modRevision };
}

/** `denied` if the ring is of another sealing key. */
export function keysOf({ keys }: Ring, sealingKey: SealKey): Map<string, SealKey> {
  return new Map(keys.map(({ id, secret }) => [id, new SealKey(id, unwrap(id, secret, sealingKey))]));
}

function unwrap(id: string, wrapped: string, sealingKey: SealKey): Buffer {
  const under = keyIdOf(wrapped);
  if (under === sealingKey.id) return Buffer.from(sealingKey.open(pathOf(id), wrapped), 'base64url');
  throw new FlynnError(
    'denied',
    `the cluster's secrets are sealed with the sealing key ${under}, and here is ${sealingKey.id}: is this host of another cluster, or its cluster.json of an older one? npm run up -- --join TOKEN brings the right one`,
  );
}

const pathOf = (id: string): string => `${ringKey}#${id}`;

function wrapped(id: string, sealingKey: SealKey, now: Date): Ring['keys'][number] {
  const secret = sealingKey.seal(pathOf(id), newSecretOfKey().toString('base64url'));
  return { id, madeAt: now.toISOString(), secret };
}

export type RingMaker = Readonly<{ sealingKey: SealKey; newId: () => string; now: Date }>;

/** From now on secrets are sealed. Whether there was no ring before; of two who make one at once one is first. */
export async function makeRing(
  store: Pick<Store, 'transact'>,
  { sealingKey, newId, now }: RingMaker,
  options: CallOptions = {},
): Promise<boolean> {
  const id = newId();
  const ring: Ring = {
    current: id,
    keys: [wrapped(id, sealingKey, now)],
    rewriting: { since: now.toISOString() },
  };
  return await write(store, ring, [{ key: ringKey, modRevision: 0 }], options);
}

/** A new key for what is written from now on. `conflict` while the last change is not through, or where nothing is sealed. */
export async function addKey(
  store: Pick<Store, 'get' | 'transact'>,
  { sealingKey, newId, now }: RingMaker,
  options: CallOptions = {},
): Promise<Ring> {
  const stored = await readRing(store, options);
  if (stored === undefined) {
    throw new FlynnError('conflict', 'nothing is sealed yet: npm run up on every host begins it');
  }
  const { ring, revision } = stored;
  if (ring.rewriting !== undefined) {
    const since = `the last change of keys, of ${ring.rewriting.since}, is not through, which takes a minute or two`;
    throw new FlynnError('conflict', `${since}: "flynn cluster keys rotate --wait" waits for it first`);
  }
  keysOf(ring, sealingKey);
  const id = newId();
  const next: Ring = {
    current: id,
    keys: [...ring.keys, wrapped(id, sealingKey, now)],
    rewriting: { since: now.toISOString() },
  };
  if (await write(store, next, [{ key: ringKey, modRevision: revision }], options)) return next;
  throw new FlynnError('conflict', 'the keys were changed at the same time: look with "flynn cluster keys"');
}

/** Only the current key is left. False if the ring has changed since it was read. */
export async function retireOldKeys(
  store: Pick<Store, 'transact'>,
  { ring, revision }: StoredRing,
  options: CallOptions & { compare?: readonly Compare[] } = {},
): Promise<boolean> {
  const next: Ring = { current: ring.current, keys: ring.keys.filter(({ id }) => id === ring.current) };
  return await write(store, next, [...(options.compare ?? []), { key: ringKey, modRevision: revision }], options);
}

async function write(
  store: Pick<Store, 'transact'>,
  ring: Ring,
  compare: readonly Compare[],
  options: CallOptions,
): Promise<boolean> {
  const limits = options.signal === undefined ? {} : { signal: options.signal };
  return (await store.transact({ compare, then: [{ put: ringKey, value: JSON.stringify(ring) }] }, limits)).succeeded;
}
