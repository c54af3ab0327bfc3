/**
 * The keys that values are sealed with: in the store themselves, each sealed with the cluster's sealing key, which hosts and
 * controllers have and the store never does. So keys change without anybody being told: whoever meets one it does not know
 * reads the ring again.
 */
import { FlynnError } from '@flynn/kit/errors';
import { eitherCommand } from '@flynn/kit/operator-commands';
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
  /** The id of the sealing key that these are to be sealed under soon: hosts fetch it from one another until then. */
  next: z.string().optional(),
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

/** The id of the sealing key that all of its keys are sealed under. */
export function sealedUnder({ keys }: Ring): string {
  return keyIdOf(keys[0]?.secret ?? '') ?? '';
}

/** Of the sealing keys that are known here the ring's; `denied` if it is none of them. */
export function sealingKeyOf(ring: Ring, known: readonly SealKey[]): SealKey {
  const under = sealedUnder(ring);
  const right = known.find(({ id }) => id === under);
  if (right !== undefined) return right;
  const here = known.map(({ id }) => id).join(' and ');
  throw new FlynnError(
    'denied',
    `the cluster's secrets are sealed with the sealing key ${under}, and here is ${here}: a host that is in the cluster fetches it from another within seconds. If it stays so, is this host of another cluster, or its cluster.json of an older one? ${eitherCommand('join')} brings the right one`,
  );
}

/** `denied` if the ring is of another sealing key. */
export function keysOf(ring: Ring, known: readonly SealKey[]): Map<string, SealKey> {
  const sealingKey = sealingKeyOf(ring, known);
  return new Map(ring.keys.map(({ id, secret }) => [id, new SealKey(id, unwrap(id, secret, sealingKey))]));
}

function unwrap(id: string, wrapped: string, sealingKey: SealKey): Buffer {
  return Buffer.from(sealingKey.open(pathOf(id), wrapped), 'base64url');
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
  { sealingKeys, newId, now }: Omit<RingMaker, 'sealingKey'> & { sealingKeys: readonly SealKey[] },
  options: CallOptions = {},
): Promise<Ring> {
  const stored = await readRing(store, options);
  if (stored === undefined) {
    throw new FlynnError('conflict', `nothing is sealed yet: ${eitherCommand('up')} on every host begins it`);
  }
  const { ring, revision } = stored;
  if (ring.rewriting !== undefined) {
    const since = `the last change of keys, of ${ring.rewriting.since}, is not through, which takes a minute or two`;
    throw new FlynnError('conflict', `${since}: "flynn cluster keys rotate --wait" waits for it first`);
  }
  const next = withNewKey(ring, { sealingKey: sealingKeyOf(ring, sealingKeys), newId, now });
  if (await write(store, next, [{ key: ringKey, modRevision: revision }], options)) return next;
  throw new FlynnError('conflict', 'the keys were changed at the same time: look with "flynn cluster keys"');
}

/** What is written from now on is sealed with the new one; `invalid` if the ring's own do not open. */
function withNewKey(ring: Ring, { sealingKey, newId, now }: RingMaker): Ring {
  keysOf(ring, [sealingKey]);
  const id = newId();
  return {
    ...ring,
    current: id,
    keys: [...ring.keys, wrapped(id, sealingKey, now)],
    rewriting: { since: now.toISOString() },
  };
}

/** Pure. All keys sealed under this sealing key, and a new one besides: who had the former has those of before. */
export function resealed(ring: Ring, known: readonly SealKey[], { sealingKey, newId, now }: RingMaker): Ring {
  const former = sealingKeyOf(ring, known);
  const keys = ring.keys.map((key) => ({
    ...key,
    secret: sealingKey.seal(pathOf(key.id), former.open(pathOf(key.id), key.secret)),
  }));
  const { next: _done, ...rest } = ring;
  return withNewKey({ ...rest, keys }, { sealingKey, newId, now });
}

/** Only the current key is left. False if the ring has changed since it was read. */
export async function retireOldKeys(
  store: Pick<Store, 'transact'>,
  { ring, revision }: StoredRing,
  options: CallOptions & { compare?: readonly Compare[] } = {},
): Promise<boolean> {
  const { rewriting: _done, ...rest } = ring;
  const next: Ring = { ...rest, keys: ring.keys.filter(({ id }) => id === ring.current) };
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

/** False if the ring has changed since it was read. */
export async function replaceRing(
  store: Pick<Store, 'transact'>,
  { revision }: StoredRing,
  ring: Ring,
  options: CallOptions = {},
): Promise<boolean> {
  return await write(store, ring, [{ key: ringKey, modRevision: revision }], options);
}
