/** What other services use to reach the blob store. */
import { createHash } from 'node:crypto';
import { Transform, pipeline } from 'node:stream';
import type { Readable } from 'node:stream';
import { openDownload } from '@flynn/kit/download';
import type { OpenFrom } from '@flynn/kit/download';
import { FlynnError, ifFound } from '@flynn/kit/errors';
import { HttpClient, type MutualClient } from '@flynn/kit/http-client';
import { routes } from './api.ts';
import type { Blob, ListedBlob, ListedName, Replication } from './api.ts';
import { allOf } from './replica.ts';

/** Errors: `not_found`, `invalid`, `exhausted` as the store says; `unavailable` and `timeout` when it cannot be reached. */
export type BlobClient = {
  /**
   * Idempotent. With `digest`, bytes that arrive damaged are refused as `invalid`. `timeoutMs`: for all of it, default 15
   * minutes.
   */
  put(
    body: Readable | Uint8Array | string,
    options?: { digest?: string; signal?: AbortSignal; timeoutMs?: number },
  ): Promise<Blob>;
  /**
   * A connection that breaks costs nothing: what is missing is asked for. The stream fails with `internal` if what arrived
   * is not the blob that was asked for.
   */
  get(digest: string, options?: { signal?: AbortSignal }): Promise<Readable>;
  stat(digest: string, options?: { signal?: AbortSignal }): Promise<Blob>;
  /** With `unusedSince` (milliseconds since the epoch) one that was used since is a `conflict`. */
  remove(digest: string, options?: { unusedSince?: number; signal?: AbortSignal }): Promise<void>;
  /** All of them, page by page. */
  list(options?: { signal?: AbortSignal }): AsyncGenerator<ListedBlob>;
  listNames(options?: { signal?: AbortSignal }): AsyncGenerator<ListedName>;
  putName(name: string, digest: string, options?: { signal?: AbortSignal }): Promise<void>;
  /** Undefined if nothing has that name, or the blob it pointed to is gone. */
  getName(name: string, options?: { signal?: AbortSignal }): Promise<Blob | undefined>;
  removeName(name: string, options?: { signal?: AbortSignal }): Promise<void>;
  /** How far each store is, as one that answers tells it. */
  replication(options?: { signal?: AbortSignal }): Promise<Replication>;
  close(): Promise<void>;
};

export function createBlobClient(options: {
  baseUrl: string | (() => Promise<string>);
  key: string;
  mutual?: MutualClient;
}): BlobClient {
  const http = new HttpClient({ ...options, name: 'the blob store' });
  return {
    put: (body, { digest, ...limits } = {}) => http.call(routes.put, { query: { digest }, body }, limits),
    async get(digest, { signal } = {}) {
      const open: OpenFrom = (from, limits) =>
        http.stream(routes.get, { params: { digest }, query: from === 0 ? {} : { from } }, limits);
      const body = await openDownload(open, { what: `the download of ${digest}`, signal });
      return pipeline(body, checkDigest(digest), () => {
        // The reader of the returned stream is told of any failure by that stream.
      });
    },
    stat: (digest, { signal } = {}) => http.call(routes.stat, { params: { digest } }, { signal }),
    remove: (digest, { unusedSince, signal } = {}) =>
      http.call(routes.remove, { params: { digest }, query: { unusedSince } }, { signal }),
    list: ({ signal } = {}) =>
      allOf(
        (query) => http.call(routes.list, { query }, { signal }),
        ({ digest }) => digest,
      ),
    listNames: ({ signal } = {}) =>
      allOf(
        (query) => http.call(routes.listNames, { query }, { signal }),
        ({ name }) => name,
      ),
    putName: (name, digest, { signal } = {}) =>
      http.call(routes.putName, { params: { name }, body: { digest } }, { signal }),
    getName: (name, { signal } = {}) => ifFound(http.call(routes.getName, { params: { name } }, { signal })),
    removeName: (name, { signal } = {}) => http.call(routes.removeName, { params: { name } }, { signal }),
    replication: ({ signal } = {}) => http.call(routes.replication, {}, { signal }),
    close: () => http.close(),
  };
}

/** Passes bytes on and fails at their end if their digest is another one, which `onOther` is told of. */
export function checkDigest(digest: string, onOther: () => void = () => undefined): Transform {
  const hash = createHash('sha256');
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      hash.update(chunk);
      done(null, chunk);
    },
    flush(done) {
      const actual = `sha256:${hash.digest('hex')}`;
      if (actual === digest) return done();
      onOther();
      const message = `the blob store sent ${actual} when asked for ${digest}: the blob is damaged`;
      done(new FlynnError('internal', message, { detail: { isDamaged: true } }));
    },
  });
}

/** All of it came, and it is not what was asked for. */
export function isDamaged(error: unknown): boolean {
  return error instanceof FlynnError && error.detail['isDamaged'] === true;
}
