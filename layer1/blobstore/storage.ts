/** The port behind the blob store: where bytes are kept. */
import type { Readable } from 'node:stream';
import { FlynnError } from '@flynn/kit/errors';
import type { Blob, ListedBlob, ListedName } from './api.ts';

export type Page = { after: string; limit: number };

/**
 * Content and identity. A blob is known by the sha256 of its bytes, never changes, and is there whole or not at all: a
 * put that fails, is aborted or whose process dies leaves no blob. The same bytes put twice, also at the same time, are
 * one blob. What a put has answered survives a power cut.
 *
 * Names. A name points to one blob; pointing it again replaces the pointer in one step. Removing a blob does not remove
 * names: a name whose blob is gone counts as not there.
 *
 * Use. A blob is used when it is put, named or asked after (`stat`). `remove` with `unusedSince` leaves one that was used
 * at that moment or later, whoever uses it at the same time: either it is seen, or it is gone for both.
 *
 * Errors. `not_found` for a blob or name that is not there, `invalid` for a digest that does not fit the bytes or a name
 * that is not allowed, `exhausted` when there is no room left. Removing what is not there is no error.
 */
export type Storage = {
  /** Reads the body to its end. With `digest`, bytes that have another one are refused. */
  put(body: AsyncIterable<Uint8Array>, options: { digest?: string | undefined; signal?: AbortSignal }): Promise<Blob>;
  /**
   * The bytes after the first `from`; `sizeBytes` is the whole blob's, and `invalid` if it has fewer. The body has to be
   * read to its end or destroyed. Removing the blob meanwhile does not disturb it.
   */
  open(digest: string, options?: { from?: number }): Promise<{ sizeBytes: number; body: Readable }>;
  stat(digest: string): Promise<Blob>;
  /** With `unusedSince` (milliseconds since the epoch) `conflict` if it was used since. */
  remove(digest: string, options?: { unusedSince?: number | undefined }): Promise<void>;
  list(page: Page): Promise<ListedBlob[]>;
  listNames(page: Page): Promise<ListedName[]>;
  putName(name: string, digest: string): Promise<void>;
  getName(name: string): Promise<Blob>;
  removeName(name: string): Promise<void>;
};

/** Checks and gives back the 64 hexadecimal digits of a digest. */
export function hexOf(digest: string): string {
  const hex = /^sha256:([0-9a-f]{64})$/.exec(digest)?.[1];
  if (hex === undefined) {
    throw new FlynnError(
      'invalid',
      `"${digest}" is not a digest: it has to look like sha256: and 64 hexadecimal digits`,
    );
  }
  return hex;
}

export const maxNameLength = 200;

/** Names look like paths but nothing in them can climb: no empty, `.` or `..` segments. */
export function checkName(name: string): string {
  const segments = name.split('/');
  const isSafe =
    name.length <= maxNameLength &&
    segments.every((segment) => /^[A-Za-z0-9._-]+$/.test(segment) && segment !== '.' && segment !== '..');
  if (isSafe) return name;
  throw new FlynnError(
    'invalid',
    `"${name.slice(0, maxNameLength)}" is not a usable name: up to ${maxNameLength} letters, digits, ".", "_" and "-" in segments split by "/"`,
  );
}
