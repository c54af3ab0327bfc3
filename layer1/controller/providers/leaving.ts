/** What an app had of providers, when the app goes: what no other app has goes too, by itself and in its own time. */
import { hasCode } from '@flynn/kit/errors';
import type { Compare } from '@flynn/store/store';
import type { Deps } from '../deps.ts';
import { resourceType } from './types.ts';
import type { ProvidedResource } from './types.ts';

/** Those that no other app has. */
export async function onlyOf(
  deps: Pick<Deps, 'resources'>,
  appId: string,
  signal: AbortSignal,
): Promise<readonly ProvidedResource[]> {
  const own = await ofApp(deps, appId, signal);
  return own.filter((resource) => isOnlyOf(resource, appId));
}

/** One that no app is to have any more is somebody's who keeps it. */
function isOnlyOf({ spec }: ProvidedResource, appId: string): boolean {
  return spec.apps.length > 0 && spec.apps.every((one) => one.appId === appId);
}

/** Of an app that is about to go: nothing of it is left in any resource. Providers that are away keep no app from going. */
export async function leaveResources(
  deps: Pick<Deps, 'resources'>,
  appId: string,
  { signal, epoch }: { signal: AbortSignal; epoch: Compare },
): Promise<void> {
  const { resources } = deps;
  const guarded = { signal, also: () => ({ compare: [epoch] }) };
  for (const resource of await ofApp(deps, appId, signal)) {
    const { id, uid } = resource;
    // Before the app is taken from it, so that one that dies in between is followed by one who sees whose it was.
    if (isOnlyOf(resource, appId)) await resources.delete(resourceType, id, { ...guarded, expectUid: uid });
    const without = (current: ProvidedResource) => withoutApp(current, appId);
    await resources.change(resourceType, id, without, { ...guarded, expectUid: uid }).catch(ignoreGone);
  }
}

/** Its provider was quick. */
function ignoreGone(error: unknown): void {
  if (!hasCode(error, 'not_found')) throw error;
}

async function ofApp(
  { resources }: Pick<Deps, 'resources'>,
  appId: string,
  signal: AbortSignal,
): Promise<ProvidedResource[]> {
  const has = ({ spec, status }: ProvidedResource): boolean =>
    spec.apps.some((one) => one.appId === appId) ||
    status.links[appId] !== undefined ||
    status.refused[appId] !== undefined;
  return resources.list(resourceType, { signal, where: has });
}

function withoutApp({ spec, status }: ProvidedResource, appId: string): Pick<ProvidedResource, 'spec' | 'status'> {
  const { [appId]: _link, ...links } = status.links;
  const { [appId]: _refused, ...refused } = status.refused;
  return {
    spec: { ...spec, apps: spec.apps.filter((one) => one.appId !== appId) },
    status: { ...status, links, refused },
  };
}
