/** Who gets in at copies of an app: whom its oldest route lets in that does not let in everybody. */
import { FlynnError, ifFound } from '@flynn/kit/errors';
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

/** In one transaction with the route of their app: they have pages. An app seldom has more; those follow after it. */
const together = 20;

type Following = Readonly<{
  /** What goes into the transaction that writes the route. */
  pieces(next: RouteResource): Piece[];
  /** Once that is written. */
  finish(next: RouteResource): Promise<void>;
}>;

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
  // What cannot be read may be what keeps it closed.
  const routes = await deps.resources.list(routeType, { owner: ownedBy(app.id), signal, isStrict: true });
  const access = firstClosed(routes)?.spec.http.access;
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
): Promise<Following> {
  const { access } = route.spec.http;
  if (access === undefined) return nobody;
  const { own, reviews } = await routesOf(deps, app, signal);
  if (firstClosed(own)?.id !== route.id) return nobody;
  const isLike = ({ http }: RouteResource['spec']) => isEqual(http.access, access);
  const followers = reviews.filter(({ spec }) => isLike(spec));
  /** Undefined where nobody is to follow. */
  const accessIn = ({ spec: { http } }: RouteResource) => (isEqual(http.access, access) ? undefined : http.access);
  return {
    pieces(next) {
      const wanted = accessIn(next);
      if (wanted === undefined) return [];
      return followers
        .slice(0, together)
        .map((one) =>
          writePiece(routeType, one, { ...one, updatedAt: next.updatedAt, spec: letting(one.spec, wanted) }),
        );
    },
    async finish(next) {
      const wanted = accessIn(next);
      if (wanted === undefined) return;
      for (const { id } of followers.slice(together)) {
        const change = ({ spec }: RouteResource) => (isLike(spec) ? letting(spec, wanted) : spec);
        await ifFound(deps.resources.update(routeType, id, change, { signal }));
      }
    },
  };
}

const nobody: Following = { pieces: () => [], finish: async () => {} };

function firstClosed(routes: readonly RouteResource[]): RouteResource | undefined {
  const closed = routes.filter(({ spec }) => spec.http.access !== undefined);
  return closed.toSorted((a, b) => (a.createdAt < b.createdAt ? -1 : 1))[0];
}

/** In one reading: of all routes there may be very many. */
async function routesOf(
  { resources }: Reading,
  app: AppResource,
  signal: AbortSignal,
): Promise<{ own: RouteResource[]; reviews: RouteResource[] }> {
  const apps = await resources.list(appType, { signal });
  const isReview = ({ spec, deletingSince }: AppResource) =>
    spec.meta[parentMeta] === app.id && deletingSince === undefined;
  const reviewIds = new Set(apps.filter(isReview).map(({ id }) => id));
  const where = ({ spec: { appId } }: RouteResource) => appId === app.id || reviewIds.has(appId);
  const all = await resources.list(routeType, { signal, where });
  const own = all.filter(({ spec }) => spec.appId === app.id);
  return { own, reviews: all.filter(({ spec }) => spec.appId !== app.id) };
}

function letting(spec: RouteResource['spec'], access: RouteAccess): RouteResource['spec'] {
  return { ...spec, http: guarded({ ...unguarded(spec.http), access }) };
}
