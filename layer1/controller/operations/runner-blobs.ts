/** Blobs for runners outside of the cluster, handed through from and to the blob store. */
import { Readable } from 'node:stream';
import type { BlobClient } from '@flynn/blobstore/client';
import { FlynnError } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { Stall } from '@flynn/kit/stall';
import type { HeldBlobs } from '../collection/held-blobs.ts';
import type { OperationResource } from '../resources.ts';
import { runnerBlobs } from './api-runner-blobs.ts';

/** Of all of a blob, which a runner may fetch from far away meanwhile; it ends before that where it does not get on. */
const putMs = 24 * 3_600_000;

/** The gate has seen to it that a runner asks as itself. What it has no operation for reads as not there. */
export function runnerBlobHandlers(
  held: Pick<HeldBlobs, 'held' | 'known' | 'keep' | 'missing'>,
  blobs: Pick<BlobClient, 'get' | 'getName' | 'put' | 'stat'>,
): Handler[] {
  const heldBy = async (runnerId: string, signal: AbortSignal): Promise<OperationResource[]> => {
    const operations = await held.held(runnerId, signal);
    if (operations.length > 0) return operations;
    throw new FlynnError('denied', `runner ${runnerId} has no operation to read or store anything for`);
  };
  const checkIts = async (runnerId: string, digest: string, signal: AbortSignal): Promise<void> => {
    if ((await held.missing(runnerId, [digest], signal)).length === 0) return;
    // One that holds nothing is told that, and not that there is no such blob.
    await heldBy(runnerId, signal);
    throw new FlynnError('not_found', `there is no blob ${digest} of an operation that runner ${runnerId} holds`);
  };
  return [
    handle(runnerBlobs.put, async ({ params, query: { digest }, body, signal }) => {
      const operations = await heldBy(params.runner, signal);
      using stall = new Stall({ what: `what runner ${params.runner} stores`, signal });
      const watched = Readable.from(stall.watched(body), { objectMode: false });
      const limits = { signal: stall.signal, timeoutMs: putMs };
      const stored = await blobs.put(watched, { ...(digest === undefined ? {} : { digest }), ...limits });
      await held.keep(operations, stored.digest, signal);
      return stored;
    }),
    handle(runnerBlobs.get, async ({ params: { runner, digest }, signal }) => {
      await checkIts(runner, digest, signal);
      const { sizeBytes } = await blobs.stat(digest, { signal });
      return {
        body: await blobs.get(digest, { signal }),
        headers: { 'content-length': String(sizeBytes) },
      };
    }),
    handle(runnerBlobs.stat, async ({ params: { runner, digest }, signal }) => {
      await checkIts(runner, digest, signal);
      return blobs.stat(digest, { signal });
    }),
    handle(runnerBlobs.named, async ({ params: { runner }, query: { name }, signal }) => {
      const isOf = (operations: readonly OperationResource[]) => operations.some(({ id }) => name === `builds/${id}`);
      const isIts = isOf(await held.known(runner, signal)) || isOf(await heldBy(runner, signal));
      const found = isIts ? await blobs.getName(name, { signal }) : undefined;
      if (found !== undefined) return found;
      throw new FlynnError('not_found', `no build has left ${name}`);
    }),
  ];
}
