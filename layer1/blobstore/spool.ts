/** Bytes on their way to where they are kept: in a file first, for nothing is known of them before their end. */
import { createHash } from 'node:crypto';
import { open } from 'node:fs/promises';
import { FlynnError, asFlynnError, hasErrno } from '@flynn/kit/errors';
import type { Blob } from './api.ts';

/** All of it is on the disk when this resolves. */
export async function writeDurably(
  path: string,
  body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  signal: AbortSignal | undefined,
): Promise<Blob> {
  const hash = createHash('sha256');
  let sizeBytes = 0;
  await using file = await open(path, 'wx', 0o644);
  for await (const chunk of body) {
    signal?.throwIfAborted();
    hash.update(chunk);
    sizeBytes += chunk.length;
    await file.appendFile(chunk);
  }
  await file.sync();
  return { digest: `sha256:${hash.digest('hex')}`, sizeBytes };
}

/** `invalid` for other bytes than were meant. */
export function checkSame(digest: string | undefined, blob: Blob): void {
  if (digest === undefined || blob.digest === digest) return;
  throw new FlynnError('invalid', `the bytes are ${blob.digest}, not ${digest}: send them again`);
}

export function removedSince(digest: string): FlynnError {
  return new FlynnError('conflict', `the blob ${digest} was removed since it was last used: its copy is not taken`);
}

export function beyondEnd(digest: string, sizeBytes: number, from: number): FlynnError {
  return new FlynnError('invalid', `the blob ${digest} has ${sizeBytes} bytes: none is after ${from}`);
}

/** What the disk says of `what`, as this store says it. */
export async function translated<T>(what: string, fn: () => Promise<T>): Promise<T> {
  try {
    return await fn();
  } catch (error) {
    if (error instanceof FlynnError) throw error;
    if (hasErrno(error, 'ENOENT')) {
      throw new FlynnError('not_found', `${what} is not in the blob store`, { cause: error });
    }
    if (hasErrno(error, 'ENOSPC', 'EDQUOT')) {
      throw new FlynnError('exhausted', `there is no room for ${what}: free disk space on the blob store's volume`, {
        cause: error,
      });
    }
    throw asFlynnError(error);
  }
}
