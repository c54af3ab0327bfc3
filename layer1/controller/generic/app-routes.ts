/** Routes of an app as one file has them: which it may have, and how they come about. */
import { refusal } from '@flynn/resource/record';
import { checkRoutePlace, checkRouteTarget, checkUndivided } from '../access/neighbours.ts';
import type { Deps } from '../deps.ts';
import { placeOf } from './app-state.ts';
import type { AppState, RouteState, WantedApp } from './app-state.ts';
import { isEqual } from './difference.ts';
import type { ApplyContext } from './kind.ts';
import { ownedBy, routeType } from '../resources.ts';
import type { AppResource, RouteResource } from '../resources.ts';
import { changeRoute } from '../routes/changes.ts';
import { createRoute } from '../routes/creation.ts';
import { withReleaseIds } from '../routes/releases.ts';
import { issuesOf } from './route-settings.ts';

export function routeOf({ spec }: RouteResource): RouteState {
  const { domain, path, port, service, http } = spec;
  const { serverName, ...tcp } = spec.tcp;
  const settings = { http, tcp };
  if (port === undefined) return { ...(domain === undefined ? {} : { domain }), path, service, settings };
  return { port, ...(serverName === undefined ? {} : { serverName }), service, settings };
}

/**
 * What a file that makes the app elsewhere cannot have is left out: weights, which are of releases and which the routes themselves
 * show, and whose copy a review app is.
 */
/** Before anything is made: what another app has cannot be had. */
export async function checkPlaces(
  { resources }: Deps,
  name: string,
  { app, routes }: { app: AppResource | undefined; routes: readonly RouteState[] },
  signal: AbortSignal,
): Promise<void> {
  const all = await resources.list(routeType, { signal });
  const taken = new Set(all.flatMap((route) => (route.owner?.id === app?.id ? [] : [placeOf(routeOf(route))])));
  const issues = routes.flatMap((route, index) =>
    taken.has(placeOf(route))
      ? [{ path: `routes.${index}`, message: `another app answers at ${placeOf(route)} already` }]
      : [],
  );
  if (issues.length > 0) throw refusal(`app ${name}`, issues);
}

/** The same as by hand: a route is to a service of one's own, on a host name that is nobody else's. */
export async function checkRoutes(
  deps: Deps,
  { principal, signal }: Pick<ApplyContext, 'principal' | 'signal'>,
  app: { id: string; spec: Pick<AppResource['spec'], 'name' | 'isSystem'>; before: AppState; after: AppState },
): Promise<void> {
  const { before, after } = app;
  for (const route of after.routes) {
    const place = placeOf(route);
    if (before.routes.some((known) => placeOf(known) === place && known.service === route.service)) continue;
    await checkRouteTarget(deps, { principal, signal }, app, route.service, async () => after.processes);
    await checkRoutePlace(deps, principal, app, route, signal);
    if (route.domain !== undefined) await checkUndivided(deps, app, route.domain, signal);
  }
}

/** `changes`: of their settings, in the same order. */
export async function setRoutes(
  deps: Deps,
  app: AppResource,
  { routes, changes }: { routes: readonly RouteState[]; changes: NonNullable<WantedApp['routes']> },
  signal: AbortSignal,
): Promise<void> {
  const { resources } = deps;
  const present = await resources.list(routeType, { owner: ownedBy(app.id), signal });
  const known = new Map(present.map((route) => [placeOf(routeOf(route)), route]));
  // New ones first: while a site moves, both answer.
  for (const [index, route] of routes.entries()) {
    const old = known.get(placeOf(route));
    const { settings, serverName, ...entry } = route;
    const { http, tcp } = changes[index] ?? {};
    if (old === undefined) {
      const type = route.port === undefined ? 'http' : 'tcp';
      const ofTcp = type === 'http' ? {} : { tcp: { ...tcp, ...(serverName === undefined ? {} : { serverName }) } };
      await createRoute(deps, app.id, { type, ...entry, http, ...ofTcp }, signal);
    } else if (old.spec.service !== entry.service || !isEqual(routeOf(old).settings, settings)) {
      await changeRoute(deps, { app, route: old }, { service: entry.service, http, tcp }, signal);
    }
  }
  const wanted = new Set(routes.map(placeOf));
  for (const [place, route] of known) {
    if (!wanted.has(place)) await resources.delete(routeType, route.id, { signal });
  }
}

/** Weights as people write them name releases: with their ids, as they are stored. */
export async function withKnownReleases(
  deps: Deps,
  { name, app, wanted }: { name: string; app: AppResource | undefined; wanted: WantedApp },
  signal: AbortSignal,
): Promise<WantedApp> {
  if (wanted.routes === undefined) return wanted;
  const routes: NonNullable<WantedApp['routes']> = [];
  for (const [index, route] of wanted.routes.entries()) {
    const path = `routes.${index}`;
    if ((route.http?.weights ?? []).length > 0 && app === undefined) {
      const message = 'an app that is to be made has no releases yet: give their weights once it has';
      throw refusal(`app ${name}`, [{ path: `${path}.http.weights`, message }]);
    }
    try {
      const known =
        app === undefined || route.http === undefined
          ? route.http
          : await withReleaseIds(deps, app, route.http, signal);
      routes.push({ ...route, http: known });
    } catch (error) {
      throw refusal(
        `app ${name}`,
        issuesOf(error).map((issue) => ({ path: `${path}.${issue.path}`, message: issue.message })),
      );
    }
  }
  return { ...wanted, routes };
}
