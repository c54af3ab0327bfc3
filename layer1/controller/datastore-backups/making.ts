/** Makes one backup of a datastore: what its program writes, encrypted, as a blob. Memory for it does not grow with it. */
import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { type Clock, pause, systemClock } from '@flynn/kit/clock';
import { FlynnError } from '@flynn/kit/errors';
import { Stall } from '@flynn/kit/stall';
import type { BlobClient } from '@flynn/blobstore/client';
import type { Bytes } from '../backup/archive.ts';
import type { HostClients } from '../hosts/clients.ts';
import { type Member, outputOf } from './member.ts';
import { openedDump, sealedDump } from './sealing.ts';

export type DumpBlobs = Pick<BlobClient, 'put' | 'get' | 'stat'>;

/** Of all of it: what takes longer is stopped by a person. */
export const wholeMs = 24 * 3_600_000;
const tellMs = 5_000;

export type MadeDump = Readonly<{ digest: string; blobBytes: number; dumpBytes: number }>;

/**
 * Resolves once the program has ended well and the blob store has answered that it has every byte that was sent. Fails otherwise,
 * also with `timeout` when nothing gets on for ten minutes; a blob that came about is nobody's then, and is collected.
 * A program that is preparing what it writes gets on as long as it says anything. `onProgress` is given the bytes that it has
 * written, every few seconds to the end, also while the blob store copies what it was sent; what it throws ends all of it.
 */
export async function makeDump(
  hosts: Pick<HostClients, 'exec'>,
  blobs: Pick<DumpBlobs, 'put'>,
  { member, command, secret }: { member: Member; command: readonly string[]; secret: string },
  {
    signal,
    onProgress,
    quietMs,
    clock = systemClock,
  }: {
    signal: AbortSignal;
    onProgress: (bytes: number) => Promise<void>;
    quietMs?: number | undefined;
    clock?: Pick<Clock, 'sleep'>;
  },
): Promise<MadeDump> {
  const over = new AbortController();
  using stall = new Stall({ what: 'the backup', signal: AbortSignal.any([signal, over.signal]), quietMs });
  let writtenBytes = 0;
  const dump = async function* (): AsyncGenerator<Uint8Array> {
    const options = { signal: stall.signal, onWords: () => stall.progressed() };
    for await (const chunk of outputOf(hosts, member, command, options)) {
      writtenBytes += chunk.length;
      yield chunk;
    }
  };
  const storing = storeSealed(blobs, stall.watched(dump()), { secret, signal: stall.signal });
  const isStored = new AbortController();
  const ended = Promise.allSettled([storing]).then(() => isStored.abort());
  try {
    while (!isStored.signal.aborted) {
      await pause(tellMs, isStored.signal, clock);
      if (!isStored.signal.aborted) await onProgress(writtenBytes);
    }
  } finally {
    over.abort();
    await ended;
  }
  const { bytes: dumpBytes, ...stored } = await storing;
  if (dumpBytes === 0)
    throw new FlynnError('internal', `${command.at(-1) ?? 'the program'} ended well, and wrote nothing`);
  return { ...stored, dumpBytes };
}

/** Resolves once the blob store has answered that it has all of the source, encrypted. `bytes`: of the source. */
export async function storeSealed(
  blobs: Pick<DumpBlobs, 'put'>,
  source: Bytes,
  { secret, signal }: { secret: string; signal: AbortSignal },
): Promise<Readonly<{ digest: string; blobBytes: number; bytes: number }>> {
  const hash = createHash('sha256');
  let bytes = 0;
  let blobBytes = 0;
  let isWhole = false;
  const whole = async function* (): AsyncGenerator<Uint8Array> {
    for await (const chunk of source) {
      bytes += chunk.length;
      yield chunk;
    }
    isWhole = true;
  };
  const sealed = async function* (): AsyncGenerator<Uint8Array> {
    for await (const chunk of sealedDump(whole(), secret)) {
      blobBytes += chunk.length;
      hash.update(chunk);
      yield chunk;
    }
  };
  const body = Readable.from(sealed(), { objectMode: false });
  const stored = await blobs.put(body, { signal, timeoutMs: wholeMs });
  const digest = `sha256:${hash.digest('hex')}`;
  if (!isWhole || stored.sizeBytes !== blobBytes || stored.digest !== digest) {
    throw new FlynnError(
      'internal',
      `the blob store has ${stored.sizeBytes} bytes (${stored.digest}) of ${blobBytes} that were sent (${digest})`,
    );
  }
  return { digest, blobBytes, bytes };
}

/** What the datastore's program had written. Fails at its end, at the latest, if it is anything else. */
export async function openDump(
  blobs: Pick<DumpBlobs, 'get'>,
  { digest, secret }: { digest: string; secret: string },
  signal: AbortSignal,
): Promise<Bytes> {
  return openedDump(await blobs.get(digest, { signal }), secret);
}
