/** What a runner reaches: as a part of the platform by discovery, from outside of the cluster the controller's address alone. */
import { createBlobClient } from '@flynn/blobstore/client';
import { runnerCredential } from '@flynn/controller/operations/runner-token';
import { createDiscoveryClient } from '@flynn/discovery/client';
import { partOf } from '@flynn/discovery/parts';
import { HttpClient } from '@flynn/kit/http-client';
import { ownIdentity } from '@flynn/kit/identity';
import type { Logger } from '@flynn/kit/log';
import type { TaskGroup } from '@flynn/kit/tasks';
import type { Inside, Outside } from './config.ts';
import { controllerBlobs } from './controller-blobs.ts';
import type { Execution } from './execution.ts';

export type Connections = AsyncDisposable & Readonly<{ controller: HttpClient; blobs: Execution['blobs'] }>;

export async function connectInside(
  { config }: Inside,
  context: { log: Logger; tasks: TaskGroup },
): Promise<Connections> {
  const discovery = createDiscoveryClient({ url: config.FLYNN_DISCOVERY_URL });
  const identity = await ownIdentity(config, context);
  const key = config.FLYNN_KEY;
  const controller = new HttpClient({
    ...partOf(discovery, 'controller', identity),
    key: config.FLYNN_CONTROLLER_TOKEN ?? key,
    name: 'the controller',
  });
  const blobs = createBlobClient({ ...partOf(discovery, 'blobstore', identity), key });
  return {
    controller,
    blobs,
    async [Symbol.asyncDispose]() {
      await Promise.all([controller.close(), blobs.close(), discovery.close()]);
    },
  };
}

export function connectOutside({ url, ca, id, token }: Outside): Connections {
  const trust = ca === undefined ? {} : { ca };
  const name = `the controller at ${url}`;
  const controller = new HttpClient({ baseUrl: url, key: runnerCredential(id, token), name, ...trust });
  return { controller, blobs: controllerBlobs(controller, id), [Symbol.asyncDispose]: () => controller.close() };
}
