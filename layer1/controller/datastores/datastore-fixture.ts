/** A datastore in the controller's simulated world, with its members up. For tests. */
import { kindNames } from '@flynn/appliances/kinds';
import { waitFor } from '@flynn/kit/retry';
import { apps, releases } from '../api.ts';
import { providers, resources } from '../providers/api.ts';
import type { TestController } from '../testing.ts';

/** What a world is started with that is to have some. */
export const withAppliances = {
  applianceImages: Object.fromEntries(kindNames.map((kind) => [kind, `test/${kind}`])),
} as const;

type MakingOptions = { app: string; members?: number; kind?: string; config?: Record<string, string> };

export type TestDatastore = Readonly<{ id: string; name: string; resourceId: string; secrets: Record<string, string> }>;

/** `NAME-KIND` for the app of that name, once that is led to it. */
export async function makeTestDatastore(
  { client }: TestController,
  { app, members = 2, kind = 'postgres', config = {} }: MakingOptions,
): Promise<TestDatastore> {
  // The worker adds it when it begins to lead.
  const isThere = async () => (await client.call(providers.list, {})).some(({ name }) => name === kind);
  await waitFor(isThere, { what: `the provider ${kind}`, deadlineMs: 60_000, intervalMs: 10 });
  const body = { apps: [app], config: { members: String(members), ...config } };
  const { id: resourceId } = await client.call(resources.create, { params: { provider: kind }, body });
  const params = { resource: resourceId };
  const isReady = async () => {
    const { state, failure, apps: given } = await client.call(resources.get, { params });
    if (failure !== undefined) throw new Error(failure.message);
    return state === 'ready' && given.every((one) => one.state === 'added');
  };
  await waitFor(isReady, { what: `the datastore of ${app}`, deadlineMs: 60_000, intervalMs: 10 });
  const all = await client.call(apps.list, {});
  const own = all.find(({ datastore }) => datastore?.resourceId === resourceId);
  if (own?.releaseId === undefined) throw new Error(`${resourceId} has no app that is live`);
  const { env } = await client.call(releases.get, { params: { app: own.id, release: own.releaseId } });
  return { id: own.id, name: own.name, resourceId, secrets: env };
}
