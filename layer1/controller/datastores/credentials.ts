/** Whom apps log in to a datastore as, and having the password made anew. The worker does that: see providers/rotation.ts. */
import { FlynnError } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { principalOf } from '../access/principal.ts';
import type { Principal } from '../access/principal.ts';
import { runnableApp } from '../deps.ts';
import type { Deps } from '../deps.ts';
import { checkChange } from '../providers/sight.ts';
import { resourceType } from '../providers/types.ts';
import type { ProvidedResource, RotatedApp, Rotation } from '../providers/types.ts';
import { waitingOf } from '../providers/views.ts';
import { appType } from '../resources.ts';
import { datastores as routes } from './api.ts';
import type { Credentials } from './api.ts';
import { findDatastore } from './lookup.ts';
import type { Datastore } from './lookup.ts';

/** The name of an app that the caller may see; undefined of any other. */
type NameOf = (appId: string) => string | undefined;

export function credentialHandlers(deps: Deps): Handler[] {
  const { resources, now } = deps;
  const show = async (
    datastore: Datastore,
    resource: ProvidedResource,
    { principal, signal }: { principal: Principal; signal: AbortSignal },
  ): Promise<Credentials> => {
    const seen = (await resources.list(appType, { signal })).filter((app) => principal.canSee(runnableApp(app)));
    const names = new Map(seen.map(({ id, spec }) => [id, spec.name]));
    return viewCredentials(datastore, resource, (appId) => names.get(appId));
  };
  return [
    handle(routes.credentials, async (call) => {
      const { params, signal } = call;
      const datastore = await findDatastore(deps, params.app, signal);
      const resource = await resources.get(resourceType, datastore.resourceId, { signal });
      return show(datastore, resource, { principal: principalOf(call), signal });
    }),
    handle(routes.rotate, async (call) => {
      const { params, query, signal } = call;
      const principal = principalOf(call);
      const datastore = await findDatastore(deps, params.app, signal);
      const found = await resources.get(resourceType, datastore.resourceId, { signal });
      await checkChange(deps, principal, found, signal);
      const startedAt = new Date(now()).toISOString();
      const begun = { by: principal.name, startedAt, ...(query.force === true ? { isForced: true } : {}) };
      const wanted = await resources.updateStatus(
        resourceType,
        found.id,
        (current) => ({ ...current.status, rotation: wantedOf(current, begun) }),
        { signal, expectUid: found.uid },
      );
      return show(datastore, wanted, { principal, signal });
    }),
  ];
}

/** One that is under way is this wish, too; apps that failed get another release. Throws `conflict` for what is not up. */
function wantedOf(
  { id, status: { rotation, externalId }, deletingSince }: ProvidedResource,
  begun: Pick<Rotation, 'by' | 'startedAt' | 'isForced'>,
): Rotation {
  if (deletingSince !== undefined) throw new FlynnError('conflict', `the resource ${id} is being removed`);
  if (externalId === undefined) {
    throw new FlynnError('conflict', `the resource ${id} is still being made: flynn resource tells how far it is`);
  }
  if (rotation === undefined || rotation.state === 'done') return { state: 'wanted', ...begun };
  const forced = begun.isForced === true ? { isForced: true } : {};
  if (rotation.state !== 'giving') return { ...rotation, ...forced };
  const apps = Object.entries(rotation.apps).map(([appId, app]) => [appId, app.failure === undefined ? app : {}]);
  return { ...rotation, ...forced, apps: Object.fromEntries(apps) };
}

function viewCredentials({ app, appliance }: Datastore, resource: ProvidedResource, nameOf: NameOf): Credentials {
  const { status, createdAt } = resource;
  const { rotation, login, env } = status;
  const isUnderWay = rotation !== undefined && rotation.state !== 'done';
  const waitingFor = isUnderWay ? waitingOf(resource) : undefined;
  return {
    datastore: app.spec.name,
    login: appliance.logins.of(env).name,
    since: login?.since ?? createdAt,
    ...(rotation === undefined ? {} : { rotation: viewRotation(rotation, nameOf) }),
    ...(waitingFor === undefined ? {} : { waitingFor }),
  };
}

function viewRotation(rotation: Rotation, nameOf: NameOf): NonNullable<Credentials['rotation']> {
  const { state, by, startedAt } = rotation;
  const apps = 'apps' in rotation ? Object.entries(rotation.apps) : [];
  return {
    state,
    by,
    startedAt,
    ...('endedAt' in rotation ? { endedAt: rotation.endedAt } : {}),
    apps: apps.map(([appId, of]) => viewApp(of, nameOf(appId))),
  };
}

function viewApp(
  { version, failure, releaseId, isThrough = false }: RotatedApp,
  app: string | undefined,
): NonNullable<Credentials['rotation']>['apps'][number] {
  const underWay = releaseId === undefined ? 'waiting' : 'deploying';
  return {
    state: isThrough ? 'complete' : failure === undefined ? underWay : 'failed',
    ...(app === undefined ? {} : { app }),
    ...(version === undefined ? {} : { version }),
    // It names the app.
    ...(failure === undefined || app === undefined ? {} : { failure }),
  };
}
