/** Changing routes that are there: their service, their settings, and whether they are in maintenance. */
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { mergePieces } from '@flynn/resource/piece';
import type { Deps } from '../deps.ts';
import { findLiveApp } from '../deps.ts';
import { ownedBy, routeType } from '../resources.ts';
import type { AppResource, RouteResource } from '../resources.ts';
import { followersOf } from './copied-access.ts';
import { wrongSettings } from './creation.ts';
import { withReleaseIds } from './releases.ts';
import { changedHttp, changedTcp } from './rules.ts';
import type { HttpChange, TcpChange } from './settings.ts';

export type RouteChange = {
  service?: string | undefined;
  http?: HttpChange | undefined;
  tcp?: TcpChange | undefined;
  /** Only if it is at this revision. */
  revision?: number | undefined;
};

/** By its id, or its place: `shop.example.com/blog`, `tcp:3000`. */
export async function findRoute(
  deps: Pick<Deps, 'resources'>,
  app: AppResource,
  text: string,
  signal: AbortSignal,
): Promise<RouteResource> {
  for (const name of [text, `${text}/`]) {
    try {
      const route = await deps.resources.lookup(routeType, name, { signal });
      if (route.spec.appId === app.id) return route;
    } catch (error) {
      if (!hasCode(error, 'not_found', 'invalid')) throw error;
    }
  }
  const list = `list them with: flynn route -a ${app.spec.name}`;
  throw new FlynnError('not_found', `${app.spec.name} has no route ${text}; ${list}`);
}

export async function changeRoute(
  deps: Pick<Deps, 'resources'>,
  { app, route }: { app: AppResource; route: RouteResource },
  change: RouteChange,
  signal: AbortSignal,
): Promise<RouteResource> {
  const { type, path } = route.spec;
  if (type === 'http' && change.tcp !== undefined) throw wrongSettings('tcp', 'http');
  if (type === 'tcp' && change.http !== undefined) throw wrongSettings('http', 'tcp');
  const http = await withReleaseIds(deps, app, change.http ?? {}, signal);
  if ((http.maintenance ?? undefined) !== undefined) checkReachable(app, path, 'in maintenance');
  if ((http.access ?? undefined) !== undefined) checkReachable(app, path, 'behind a password of its own');
  const { revision } = change;
  if (revision !== undefined && revision !== route.revision) throw overtaken(route.id, revision);
  const following = http.access === undefined ? undefined : await followersOf(deps, app, route, signal);
  try {
    const changed = await deps.resources.update(
      routeType,
      route.id,
      ({ spec }) => ({
        ...spec,
        service: change.service ?? spec.service,
        http: changedHttp(spec.http, http),
        tcp: changedTcp(spec.tcp, change.tcp ?? {}),
      }),
      {
        signal,
        ...(revision === undefined ? {} : { expectRevision: revision }),
        ...(following === undefined ? {} : { also: (next) => mergePieces(following.pieces(next)) }),
      },
    );
    await following?.finish(changed);
    return changed;
  } catch (error) {
    if (revision !== undefined && hasCode(error, 'conflict')) throw overtaken(route.id, revision, error);
    throw error;
  }
}

/** All http routes the app has now. Asked again it goes on where it stopped. */
export async function setMaintenance(
  deps: Deps,
  app: string,
  wanted: { allow: readonly string[]; page?: string | undefined } | undefined,
  signal: AbortSignal,
): Promise<RouteResource[]> {
  const live = await findLiveApp(deps, app, signal);
  const all = await deps.resources.list(routeType, { owner: ownedBy(live.id), signal });
  const routes = all.filter(({ spec }) => spec.type === 'http');
  if (routes.length === 0) {
    throw new FlynnError('invalid', `${live.spec.name} has no http route that could be in maintenance`);
  }
  const page = wanted?.page;
  const http: HttpChange = {
    maintenance: wanted === undefined ? null : { allow: [...wanted.allow] },
    ...(page === undefined ? {} : { pages: { maintenance: page } }),
  };
  const changed: RouteResource[] = [];
  for (const route of routes) changed.push(await changeRoute(deps, { app: live, route }, { http }, signal));
  return changed;
}

/** Whoever closed the controller's own door could not open it again. */
function checkReachable(app: AppResource, path: string, how: string): void {
  if (!app.spec.isSystem || app.spec.name !== 'controller' || path !== '/') return;
  throw new FlynnError('denied', `${how} the controller could not be asked to end it: its routes stay open`);
}

function overtaken(id: string, revision: number, cause?: unknown): FlynnError {
  return new FlynnError(
    'conflict',
    `route ${id} is not at revision ${revision} any more: read it again and repeat the change`,
    { cause },
  );
}
