/**
 * The sealing key is made anew in two steps, each done by whoever has both. First the ring names the one that is to be, so that
 * hosts fetch it from one another. Once everybody who reads has both, the ring is sealed under it: the former opens nothing from
 * then on, and the keys it opened are replaced, for whoever had it has those.
 */
import { FlynnError } from '@flynn/kit/errors';
import { eitherCommand } from '@flynn/kit/operator-commands';
import type { CallOptions, Store } from '../store.ts';
import type { SealKey } from './envelope.ts';
import { type Ring, type StoredRing, readRing, replaceRing, resealed, sealedUnder } from './ring.ts';

type RingStore = Pick<Store, 'get' | 'transact'>;

/** Walks retire keys at any moment. */
const attempts = 20;

/** Again: nothing happens. Without one, none is to be. `conflict` where nothing is sealed. */
export async function announceSealingKey(
  store: RingStore,
  next: SealKey | undefined,
  options: CallOptions = {},
): Promise<void> {
  await change(store, options, (ring) => {
    const { next: before, ...rest } = ring;
    const id = next === undefined || sealedUnder(ring) === next.id ? undefined : next.id;
    if (id === before) return undefined;
    return id === undefined ? rest : { ...rest, next: id };
  });
}

/**
 * Again: nothing happens. `denied` if the ring's is none of the known ones. Whether it was another one before.
 */
export async function sealUnder(
  store: RingStore,
  sealingKey: SealKey,
  { known, newId, now }: Readonly<{ known: readonly SealKey[]; newId: () => string; now: Date }>,
  options: CallOptions = {},
): Promise<boolean> {
  return await change(store, options, (ring) => {
    return sealedUnder(ring) === sealingKey.id ? undefined : resealed(ring, known, { sealingKey, newId, now });
  });
}

async function change(
  store: RingStore,
  options: CallOptions,
  next: (ring: Ring) => Ring | undefined,
): Promise<boolean> {
  for (let attempt = 0; attempt < attempts; attempt += 1) {
    const stored: StoredRing | undefined = await readRing(store, options);
    if (stored === undefined) {
      throw new FlynnError('conflict', `nothing is sealed yet: ${eitherCommand('up')} on every host begins it`);
    }
    const ring = next(stored.ring);
    if (ring === undefined) return false;
    if (await replaceRing(store, stored, ring, options)) return true;
  }
  throw new FlynnError('conflict', 'the keys of the store were changed at the same time: run the same command again');
}
