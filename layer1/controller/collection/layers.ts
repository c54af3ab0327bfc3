/** Layers of slugs, handed through from and to the blob store. */
import type { BlobClient } from '@flynn/blobstore/client';
import { FlynnError } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { layers } from './api-layers.ts';
import type { Deps } from '../deps.ts';
import { blobsOf } from '../images/image-blobs.ts';
import { artifactType } from '../resources.ts';

export function layerHandlers(
  { resources }: Pick<Deps, 'resources'>,
  blobs: Pick<BlobClient, 'get' | 'put' | 'stat'>,
): Handler[] {
  return [
    handle(layers.get, async ({ params, signal }) => {
      const { spec } = await resources.get(artifactType, params.artifact, { signal });
      // What is in the blob store beside layers is nobody's to read: sources, caches.
      if (!blobsOf(spec.image).includes(params.digest)) {
        throw new FlynnError('not_found', `the artifact ${params.artifact} has no layer ${params.digest}`);
      }
      const { sizeBytes } = await blobs.stat(params.digest, { signal });
      return {
        body: await blobs.get(params.digest, { signal }),
        headers: { 'content-type': 'application/octet-stream', 'content-length': String(sizeBytes) },
      };
    }),
    handle(layers.stat, ({ params, signal }) => blobs.stat(params.digest, { signal })),
    handle(layers.put, ({ query, body, signal }) => blobs.put(body, { digest: query.digest, signal })),
  ];
}
