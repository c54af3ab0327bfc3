/** For tests: a controller that has a provider, and what tests do with the two. */
import type { ErrorCode } from '@flynn/kit/errors';
import { hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { releases } from '../api.ts';
import { appType } from '../resources.ts';
import { startTestController } from '../testing.ts';
import { providers, resources } from './api.ts';
import { TestProvider } from './test-provider.ts';
import { resourceType } from './types.ts';

export const isCode = (code: ErrorCode, pattern: RegExp) => (error: unknown) =>
  hasCode(error, code) && pattern.test(error.message);

export type ProvidedWorld = Awaited<ReturnType<typeof startProvidedWorld>>;

/** The provider is called pg. */
export async function startProvidedWorld() {
  const world = await startTestController();
  const provider = await TestProvider.start();
  await world.client.call(providers.create, { body: { name: 'pg', url: provider.url, token: 'hunter3' } });

  return {
    world,
    provider,
    add: (body: { apps?: string[]; config?: Record<string, string>; isReplacing?: boolean }) =>
      world.client.call(resources.create, { params: { provider: 'pg' }, body }),
    remove: (resource: string) => world.client.call(resources.remove, { params: { resource } }),
    get: (resource: string) => world.client.call(resources.get, { params: { resource } }),
    /** Of the live release, once no deployment is under way. */
    envOf: async (app: string): Promise<Record<string, string>> => {
      const { releaseId = '' } = await waitFor(
        async () => {
          const found = await world.deps.resources.lookup(appType, app);
          return found.status.deploymentId === undefined ? found.status : undefined;
        },
        { what: `the deployments of ${app}`, deadlineMs: 60_000, intervalMs: 10 },
      );
      return (await world.client.call(releases.get, { params: { app, release: releaseId } })).env;
    },
    /** Waits until nothing is left of the resource. */
    gone: async (id: string): Promise<void> => {
      await waitFor(async () => (await world.deps.resources.find(resourceType, id)) === undefined, {
        what: `the end of ${id}`,
        deadlineMs: 60_000,
        intervalMs: 10,
      });
    },
    async [Symbol.asyncDispose]() {
      await world[Symbol.asyncDispose]();
      await provider[Symbol.asyncDispose]();
    },
  };
}
