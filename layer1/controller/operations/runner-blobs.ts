/** Blobs for runners outside of the cluster, handed through from and to the blob store. */
import { Readable } from 'node:stream';
import type { BlobClient } from '@flynn/blobstore/client';
import { FlynnError } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { Stall } from '@flynn/kit/stall';
import type { Deps } from '../deps.ts';
import { runnerBlobs } from './api-runner-blobs.ts';
import { holdsOperation } from './holding.ts';

/** Of all of a blob, which a runner may fetch from far away meanwhile; it ends before that where it does not get on. */
const putMs = 24 * 3_600_000;

/** The gate has seen to it that a runner asks as itself. */
export function runnerBlobHandlers(
  deps: Pick<Deps, 'queue' | 'resources'>,
  blobs: Pick<BlobClient, 'get' | 'getName' | 'put' | 'stat'>,
): Handler[] {
  const checkBusy = async (runnerId: string, signal: AbortSignal): Promise<void> => {
    if (await holdsOperation(deps, { runnerId }, signal)) return;
    throw new FlynnError('denied', `runner ${runnerId} has no operation to read or store anything for`);
  };
  return [
    handle(runnerBlobs.put, async ({ params, query: { digest }, body, signal }) => {
      await checkBusy(params.runner, signal);
      using stall = new Stall({ what: `what runner ${params.runner} stores`, signal });
      const watched = Readable.from(stall.watched(body), { objectMode: false });
      const limits = { signal: stall.signal, timeoutMs: putMs };
      return await blobs.put(watched, { ...(digest === undefined ? {} : { digest }), ...limits });
    }),
    handle(runnerBlobs.get, async ({ params: { runner, digest }, signal }) => {
      await checkBusy(runner, signal);
      const { sizeBytes } = await blobs.stat(digest, { signal });
      return {
        body: await blobs.get(digest, { signal }),
        headers: { 'content-length': String(sizeBytes) },
      };
    }),
    handle(runnerBlobs.stat, async ({ params: { runner, digest }, signal }) => {
      await checkBusy(runner, signal);
      return blobs.stat(digest, { signal });
    }),
    handle(runnerBlobs.named, async ({ params: { runner }, query: { name }, signal }) => {
      await checkBusy(runner, signal);
      const found = await blobs.getName(name, { signal });
      if (found !== undefined) return found;
      throw new FlynnError('not_found', `no build has left ${name}`);
    }),
  ];
}
