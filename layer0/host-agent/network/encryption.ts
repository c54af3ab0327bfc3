/**
 * Whether what hosts' containers send each other is encrypted: said in the store for the whole cluster, followed by every agent. It
 * begins and ends without losing a packet: first all can receive either, then all send the other, then none takes the former.
 */
import { FlynnError } from '@flynn/kit/errors';
import type { Store } from '@flynn/store/store';
import { z } from 'zod';

export const encryptionKey = '/flynn/network/encryption';
/** When the last step of a change was taken, until the change is through. */
const changeKey = '/flynn/network/change-of-encryption';

/** `ready`: every host hears the others through WireGuard, and sends in clear. `sent`: it sends encrypted, and takes both. */
export const encryptionSchema = z.enum(['off', 'ready', 'sent', 'on']);
export type Encryption = z.output<typeof encryptionSchema>;

/** As the store has it. `unreadable`: it says something that this version does not understand, which is not that it is off. */
export const encryptionWordSchema = z.enum([...encryptionSchema.options, 'unreadable']);
export type EncryptionWord = z.output<typeof encryptionWordSchema>;

/** `since`: when a change that is not through was at its last step (ISO 8601), where that was noted. */
export type EncryptionState = Readonly<{ word: EncryptionWord; since?: string | undefined }>;

const changeSchema = z.object({ since: z.iso.datetime() });

export async function readEncryption(store: Pick<Store, 'get'>, signal: AbortSignal): Promise<EncryptionWord> {
  return parseEncryption((await store.get(encryptionKey, { signal }))?.value);
}

export async function readEncryptionState(store: Pick<Store, 'get'>, signal: AbortSignal): Promise<EncryptionState> {
  const word = await readEncryption(store, signal);
  if (!isHalfway(word)) return { word };
  const change = changeSchema.safeParse(jsonOf((await store.get(changeKey, { signal }))?.value));
  return { word, since: change.data?.since };
}

export function parseEncryption(value: string | undefined): EncryptionWord {
  return value === undefined ? 'off' : (encryptionSchema.safeParse(jsonOf(value)).data ?? 'unreadable');
}

/** Nothing where it is none. */
function jsonOf(text: string | undefined): unknown {
  try {
    return JSON.parse(text ?? '');
  } catch {
    return undefined;
  }
}

/**
 * What a host is to do by the word. One that it cannot read changes nothing of what it knew last; where it knew nothing, it sends
 * nothing in clear.
 */
export function encryptionOf(word: EncryptionWord, knownLast: Encryption | undefined): Encryption {
  return word === 'unreadable' ? (knownLast ?? 'on') : word;
}

export function isHalfway(word: EncryptionWord): boolean {
  return word === 'ready' || word === 'sent';
}

/** Whether nothing is sent in clear, as far as can be told. */
export function isEncrypted(word: EncryptionWord): boolean {
  return word !== 'off' && word !== 'ready';
}

/**
 * `conflict` unless it is a step on from what it is, or back: one that is left out would lose packets. In the place of a word that
 * cannot be read any is taken.
 */
export async function writeEncryption(
  store: Pick<Store, 'get' | 'transact'>,
  next: Encryption,
  { now, signal }: { now: number; signal: AbortSignal },
): Promise<void> {
  const entry = await store.get(encryptionKey, { signal });
  const before = parseEncryption(entry?.value);
  const order = encryptionSchema.options;
  if (before !== 'unreadable' && Math.abs(order.indexOf(next) - order.indexOf(before)) > 1) {
    throw new FlynnError('conflict', `encryption is ${before}: it does not become ${next} at once`);
  }
  const change = JSON.stringify({ since: new Date(now).toISOString() });
  const { succeeded } = await store.transact(
    {
      compare: [{ key: encryptionKey, modRevision: entry?.modRevision ?? 0 }],
      then: [
        next === 'off' ? { delete: encryptionKey } : { put: encryptionKey, value: JSON.stringify(next) },
        isHalfway(next) ? { put: changeKey, value: change } : { delete: changeKey },
      ],
    },
    { signal },
  );
  if (!succeeded)
    throw new FlynnError('conflict', 'somebody else changes encryption at the same time: see how it is now');
}

/**
 * Of a cluster that came back from a backup, before other hosts join: between none there is nothing to be lost. Answers whether it
 * was written: a word that is there stays.
 */
export async function restoreEncryption(store: Pick<Store, 'transact'>, signal: AbortSignal): Promise<boolean> {
  const { succeeded } = await store.transact(
    {
      compare: [{ key: encryptionKey, createRevision: 0 }],
      then: [{ put: encryptionKey, value: JSON.stringify('on' satisfies Encryption) }],
    },
    { signal },
  );
  return succeeded;
}
