/** The blob store as a runner outside of the cluster has it: through the controller, under the runner's own token. */
import { checkDigest } from '@flynn/blobstore/client';
import { runnerBlobs } from '@flynn/controller/operations/api-runner-blobs';
import { ifFound } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import { pipeline } from 'node:stream';
import type { Execution } from './execution.ts';

export function controllerBlobs(controller: HttpClient, runner: string): Execution['blobs'] {
  return {
    put: (body, { digest, ...limits } = {}) =>
      controller.call(runnerBlobs.put, { params: { runner }, query: { digest }, body }, limits),
    async get(digest, { signal } = {}) {
      const body = await controller.stream(runnerBlobs.get, { params: { runner, digest } }, { signal });
      return pipeline(body, checkDigest(digest), () => {
        // The reader of the returned stream is told of any failure by that stream.
      });
    },
    stat: (digest, { signal } = {}) => controller.call(runnerBlobs.stat, { params: { runner, digest } }, { signal }),
    getName: (name, { signal } = {}) =>
      ifFound(controller.call(runnerBlobs.named, { params: { runner }, query: { name } }, { signal })),
  };
}
