/** Who sees a resource, and who may change it: that is decided by the roles on the apps that have it. */
import { FlynnError } from '@flynn/kit/errors';
import type { Principal } from '../access/principal.ts';
import { findLiveApp, noApp, runnableApp } from '../deps.ts';
import { refuseForDatastore } from '../datastores/guards.ts';
import type { Deps } from '../deps.ts';
import { appType } from '../resources.ts';
import type { AppResource } from '../resources.ts';
import type { ProvidedResource } from './types.ts';

/** The apps that the caller sees, and those that are theirs to change; undefined: whatever there is. */
export type Sight = Readonly<{ seen: ReadonlySet<string>; own: ReadonlySet<string> }> | undefined;

export async function sightOf(
  { resources }: Pick<Deps, 'resources'>,
  principal: Principal,
  signal: AbortSignal,
): Promise<Sight> {
  if (principal.isAdmin) return undefined;
  const all = (await resources.list(appType, { signal })).map(runnableApp);
  return {
    seen: new Set(all.filter((app) => principal.canSee(app)).map(({ id }) => id)),
    own: new Set(all.filter((app) => principal.canReadSecrets(app)).map(({ id }) => id)),
  };
}

export function isSeen(resource: ProvidedResource, sight: Sight): boolean {
  return sight === undefined || appIdsOf(resource).some((id) => sight.seen.has(id));
}

/** Throws `denied` unless the caller is a developer of all apps that have it, or of some. */
export async function checkChange(
  deps: Pick<Deps, 'resources'>,
  principal: Principal,
  resource: ProvidedResource,
  signal: AbortSignal,
  of: 'all' | 'some' = 'all',
): Promise<void> {
  const sight = await sightOf(deps, principal, signal);
  if (sight === undefined) return;
  const ids = appIdsOf(resource);
  const isOwn = of === 'some' ? ids.some((id) => sight.own.has(id)) : ids.every((id) => sight.own.has(id));
  if (isOwn) return;
  const whose = of === 'some' ? 'an app' : 'all apps';
  throw new FlynnError(
    'denied',
    `the resource ${resource.id} is for developers of ${whose} that ${of === 'some' ? 'has' : 'have'} it: take it from your app alone, or ask an admin`,
  );
}

/** An app that the caller is a developer of. */
export async function developedApp(
  deps: Pick<Deps, 'resources'>,
  principal: Principal,
  name: string,
  signal: AbortSignal,
): Promise<AppResource> {
  const app = await findLiveApp(deps, name, signal);
  refuseForDatastore(app, 'it is given to apps, and is given nothing itself');
  const one = runnableApp(app);
  if (principal.canReadSecrets(one)) return app;
  if (!principal.canSee(one)) throw noApp(name);
  throw new FlynnError('denied', `${principal.name} may only look at ${app.spec.name}`);
}

function appIdsOf({ spec, status }: ProvidedResource): string[] {
  return [...new Set([...spec.apps.map(({ appId }) => appId), ...Object.keys(status.links)])];
}
