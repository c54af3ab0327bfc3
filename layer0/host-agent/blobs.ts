/**
 * Layers come from whatever discovery knows as `blobstore`: it answers the route below with a blob's bytes, for the
 * cluster key.
 */
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { HttpClient } from '@flynn/kit/http-client';
import { defineRoute } from '@flynn/kit/routes';
import type { FetchBlob } from './engine.ts';

export const blobService = 'blobstore';

const blobRoute = defineRoute({
  method: 'GET',
  path: '/blobs/:digest',
  response: 'stream',
  summary: 'The bytes of a blob',
});

/** Asks the instances one after the other. None there: `unavailable`, which is worth waiting for. */
export function blobFetcher(instances: () => readonly { address: string }[], key: string): FetchBlob {
  return async (digest, { signal }) => {
    let problem = new FlynnError('unavailable', `cannot fetch ${digest}: no ${blobService} is in discovery yet`);
    for (const { address } of instances()) {
      const client = new HttpClient({ baseUrl: `http://${address}`, key, name: 'the blob store' });
      try {
        const blob = await client.stream(blobRoute, { params: { digest } }, signal === undefined ? {} : { signal });
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
}
