/**
 * Layers come from whatever discovery knows as `blobstore`: it answers the route below with a blob's bytes, for the
 * cluster key.
 */
import type { Readable } from 'node:stream';
import { openDownload } from '@flynn/kit/download';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { HttpClient } from '@flynn/kit/http-client';
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';
import type { Instance } from '@flynn/discovery/api';
import { asPart, partUrl } from '@flynn/discovery/parts';
import type { AgentAccess } from '../agent-client.ts';
import type { FetchBlob } from '../engine/engine.ts';

export const blobService = 'blobstore';

const blobRoute = defineRoute({
  method: 'GET',
  path: '/blobs/:digest',
  query: z.object({ from: z.coerce.number().int().nonnegative().default(0) }),
  response: 'stream',
  summary: 'The bytes of a blob, with ?from= those after so many',
});

/**
 * Asks the instances one after the other, and again for what is missing when a connection breaks. None there:
 * `unavailable`, which is worth waiting for.
 */
export function blobFetcher(
  instances: () => readonly Pick<Instance, 'address' | 'attributes'>[],
  { key, identity }: AgentAccess,
): FetchBlob {
  const openFrom = async (digest: string, from: number, limits: { signal: AbortSignal }): Promise<Readable> => {
    let problem = new FlynnError('unavailable', `cannot fetch ${digest}: no ${blobService} is in discovery yet`);
    for (const instance of instances()) {
      const { address } = instance;
      const baseUrl = partUrl(instance, identity);
      const client = new HttpClient({ baseUrl, key, name: 'the blob store', ...asPart(blobService, identity) });
      try {
        const blob = await client.stream(blobRoute, { params: { digest }, query: from === 0 ? {} : { from } }, limits);
        blob.once('close', () => void client.close());
        return blob;
      } catch (error) {
        await client.close();
        const code = error instanceof FlynnError && error.code === 'not_found' ? 'not_found' : 'unavailable';
        problem = new FlynnError(code, `cannot fetch ${digest} from ${address}: ${messageOf(error)}`, { cause: error });
      }
    }
    throw problem;
  };
  return (digest, { signal }) =>
    openDownload((from, limits) => openFrom(digest, from, limits), { what: `the download of ${digest}`, signal });
}
