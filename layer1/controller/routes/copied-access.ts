/** Who gets in at copies of an app: whom its oldest route lets in that does not let in everybody. */
import { FlynnError } from '@flynn/kit/errors';
import type { Piece } from '@flynn/resource/piece';
import { writePiece } from '@flynn/resource/piece';
import type { Principal } from '../access/principal.ts';
import { parentMeta } from '../apps/review-meta.ts';
import type { Deps } from '../deps.ts';
import { isEqual } from '../generic/difference.ts';
import { appType, ownedBy, routeType } from '../resources.ts';
import type { AppResource, RouteResource } from '../resources.ts';
import { guarded, unguarded } from './guard.ts';
import { httpSettingsSchema } from './settings.ts';
import type { HttpSettings, RouteAccess } from './settings.ts';

type Reading = Pick<Deps, 'resources'>;

/** In one transaction with the route of their app: they have pages. An app seldom has more copies, whose owners say it anew. */
const maxFollowers = 100;

/**
 * How the first route of a copy of `app` answers. The hashes come along, which the copy's developers may read: throws `denied` for
 * who may not read those of the app itself.
 */
export async function copiedHttp(
  deps: Reading,
  app: AppResource,
  principal: Principal,
  signal: AbortSignal,
): Promise<{ http?: HttpSettings }> {
  const access = (await firstClosed(deps, app, signal))?.spec.http.access;
  if (access === undefined) return {};
  const { id, spec } = app;
  if (!principal.canReadSecrets({ id, isSystem: spec.isSystem, isDatastore: spec.datastore !== undefined })) {
    throw new FlynnError('denied', `who gets in at ${spec.name} is for its developers to copy: ask one of them`);
  }
  return { http: guarded(httpSettingsSchema.parse({ access })) };
}

/**
 * What changes with who gets in at this route of the app: who gets in at its review apps, as long as nobody said something else of
 * those. Where everybody gets in from now on they stay closed: that is to be said of each.
 */
export async function followersOf(
  deps: Reading,
  app: AppResource,
  route: RouteResource,
  signal: AbortSignal,
): Promise<(next: RouteResource) => Piece[]> {
  const { access } = route.spec.http;
  if (access === undefined || (await firstClosed(deps, app, signal))?.id !== route.id) return () => [];
  const followers = (await routesOfReviews(deps, app.id, signal))
    .filter(({ spec }) => isEqual(spec.http.access, access))
    .slice(0, maxFollowers);
  return ({ updatedAt, spec: { http } }) => {
    const next = http.access;
    if (next === undefined || isEqual(next, access)) return [];
    return followers.map((one) => writePiece(routeType, one, { ...one, updatedAt, spec: letting(one.spec, next) }));
  };
}

async function firstClosed(
  { resources }: Reading,
  app: AppResource,
  signal: AbortSignal,
): Promise<RouteResource | undefined> {
  const routes = await resources.list(routeType, { owner: ownedBy(app.id), signal });
  const closed = routes.filter(({ spec }) => spec.http.access !== undefined);
  return closed.toSorted((a, b) => (a.createdAt < b.createdAt ? -1 : 1))[0];
}

async function routesOfReviews({ resources }: Reading, appId: string, signal: AbortSignal): Promise<RouteResource[]> {
  const all = await resources.list(appType, { signal });
  const reviews = all.filter(
    ({ spec, deletingSince }) => spec.meta[parentMeta] === appId && deletingSince === undefined,
  );
  const routes: RouteResource[] = [];
  for (const { id } of reviews) routes.push(...(await resources.list(routeType, { owner: ownedBy(id), signal })));
  return routes;
}

function letting(spec: RouteResource['spec'], access: RouteAccess): RouteResource['spec'] {
  return { ...spec, http: guarded({ ...unguarded(spec.http), access }) };
}
