/**
 * Whether what hosts' containers send each other is encrypted: said in the store for the whole cluster, followed by every agent. It
 * begins and ends without losing a packet: first all can receive either, then all send the other, then none takes the former.
 */
import { FlynnError } from '@flynn/kit/errors';
import type { Store } from '@flynn/store/store';
import { z } from 'zod';

export const encryptionKey = '/flynn/network/encryption';

/** `ready`: every host hears the others through WireGuard, and sends in clear. `sent`: it sends encrypted, and takes both. */
export const encryptionSchema = z.enum(['off', 'ready', 'sent', 'on']);
export type Encryption = z.output<typeof encryptionSchema>;

export async function readEncryption(store: Pick<Store, 'get'>, signal: AbortSignal): Promise<Encryption> {
  return parseEncryption((await store.get(encryptionKey, { signal }))?.value);
}

export function parseEncryption(value: string | undefined): Encryption {
  return value === undefined ? 'off' : encryptionSchema.parse(JSON.parse(value));
}

/** `conflict` unless it is a step on from what it is, or back: one that is left out would lose packets. */
export async function writeEncryption(
  store: Pick<Store, 'get' | 'transact'>,
  next: Encryption,
  signal: AbortSignal,
): Promise<void> {
  const entry = await store.get(encryptionKey, { signal });
  const before = parseEncryption(entry?.value);
  const order = encryptionSchema.options;
  if (Math.abs(order.indexOf(next) - order.indexOf(before)) > 1) {
    throw new FlynnError('conflict', `encryption is ${before}: it does not become ${next} at once`);
  }
  const { succeeded } = await store.transact(
    {
      compare: [{ key: encryptionKey, modRevision: entry?.modRevision ?? 0 }],
      then: [next === 'off' ? { delete: encryptionKey } : { put: encryptionKey, value: JSON.stringify(next) }],
    },
    { signal },
  );
  if (!succeeded)
    throw new FlynnError('conflict', 'somebody else changes encryption at the same time: see how it is now');
}
