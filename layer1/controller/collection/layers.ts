/** Layers of slugs, handed through from and to the blob store. */
import { Readable } from 'node:stream';
import type { BlobClient } from '@flynn/blobstore/client';
import { FlynnError } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { Stall } from '@flynn/kit/stall';
import { layers } from './api-layers.ts';
import { madeOf } from './made-of.ts';
import type { OwnBlobs } from './own-blobs.ts';
import type { Deps } from '../deps.ts';
import { principalOf } from '../access/principal.ts';
import type { Principal } from '../access/principal.ts';
import { appType, artifactType, releaseType } from '../resources.ts';

/** Of all of a layer, which may take as long as it gets on. */
const layerMs = 12 * 3_600_000;

export function layerHandlers(
  { resources }: Pick<Deps, 'resources'>,
  blobs: Pick<BlobClient, 'get' | 'put' | 'stat'>,
  own: Pick<OwnBlobs, 'bring' | 'check' | 'missingFor'>,
): Handler[] {
  return [
    handle(layers.get, async (call) => {
      const { params, signal } = call;
      const { spec } = await resources.get(artifactType, params.artifact, { signal });
      await checkReader(resources, principalOf(call), params.artifact, signal);
      // What is in the blob store beside layers and the records of builds is nobody's to read: sources, caches.
      if (!madeOf(spec).includes(params.digest)) {
        throw new FlynnError('not_found', `the artifact ${params.artifact} has no layer ${params.digest}`);
      }
      const { sizeBytes } = await blobs.stat(params.digest, { signal });
      return {
        body: await blobs.get(params.digest, { signal }),
        headers: { 'content-length': String(sizeBytes) },
      };
    }),
    handle(layers.stat, async (call) => {
      const { params, signal } = call;
      await own.check(principalOf(call), [params.digest], signal);
      return blobs.stat(params.digest, { signal });
    }),
    handle(layers.missing, async ({ params, query, signal }) => ({
      missing: await own.missingFor(params.operation, query.digests.split(','), signal),
    })),
    handle(layers.put, async (call) => {
      const { query, body, signal, tellOfWork } = call;
      using _telling = tellFromEnd(body, tellOfWork);
      using stall = new Stall({ what: `the layer ${query.digest}`, signal });
      const watched = Readable.from(stall.watched(body), { objectMode: false });
      const limits = { digest: query.digest, signal: stall.signal, timeoutMs: layerMs };
      const stored = await blobs.put(watched, limits);
      await own.bring(principalOf(call), stored.digest, signal);
      return stored;
    }),
  ];
}

/** Routers give up after half a minute without a byte, those of the version before also after twenty such words. */
const tellEveryMs = 20_000;

/** Until it is disposed of: whoever has sent all of it waits for what is done with it, to a bucket far away for minutes. */
function tellFromEnd(body: Readable, tell: () => void): Disposable {
  let timer: NodeJS.Timeout | undefined;
  const begin = () => void (timer = setInterval(tell, tellEveryMs));
  body.once('end', begin);
  return {
    [Symbol.dispose]() {
      body.off('end', begin);
      clearInterval(timer);
    },
  };
}

/** A slug is code: it is for developers of an app that has a release of it. */
async function checkReader(
  resources: Deps['resources'],
  principal: Principal,
  artifactId: string,
  signal: AbortSignal,
): Promise<void> {
  if (principal.isAdmin) return;
  const [releases, apps] = await Promise.all([
    resources.list(releaseType, { signal, where: ({ spec }) => spec.artifactId === artifactId }),
    resources.list(appType, { signal }),
  ]);
  const owners = new Set(releases.map(({ spec }) => spec.appId));
  const isReader = apps.some(
    ({ id, spec }) => owners.has(id) && principal.canReadSecrets({ id, isSystem: spec.isSystem }),
  );
  if (isReader) return;
  // In the words of what there is not: who may not know of it learns nothing.
  throw new FlynnError('not_found', `there is no artifact "${artifactId}"`, {
    detail: { type: 'artifact', id: artifactId },
  });
}
