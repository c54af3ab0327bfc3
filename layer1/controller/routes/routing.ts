/** Routes: which host name or port leads to which service. Two routes for the same place cannot exist: that is their name. */
import type { IncomingHttpHeaders } from 'node:http';
import { FlynnError } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import type { ServerEvent } from '@flynn/kit/routes';
import { resourcePrefix } from '@flynn/resource/keys';
import { decodeResource } from '@flynn/resource/record';
import type { Entry } from '@flynn/store/store';
import { checkRoutePlace, checkRouteTarget } from '../access/neighbours.ts';
import { principalOf } from '../access/principal.ts';
import { isShownFor } from '../certificates/shown.ts';
import type { Shown } from '../certificates/shown.ts';
import { routing } from './api.ts';
import type { RouteView } from './api.ts';
import { findApp, findLiveApp } from '../deps.ts';
import type { Deps } from '../deps.ts';
import { resumeAfter, withRevisions } from '../platform/event-stream.ts';
import { unlike } from '../generic/difference.ts';
import { pageOf } from '../paging.ts';
import { findBasis } from '../releases/releases.ts';
import { ownedBy, routeType } from '../resources.ts';
import type { AppResource, RouteResource } from '../resources.ts';
import { normalizeDomain } from './address.ts';
import { changeRoute, findRoute, setMaintenance } from './changes.ts';
import { createRoute } from './creation.ts';
import { missingRouters, reached } from './reach.ts';
import { httpSettingsSchema, tcpSettingsSchema } from './settings.ts';
import { routerStats, sumRouteStats } from './stats.ts';
import { routeForRouters, viewRoute } from '../views.ts';

const defaultHttp = httpSettingsSchema.parse({});
const defaultTcp = tcpSettingsSchema.parse({});

export function routingHandlers(deps: Deps, certificates: () => Iterable<Shown>): Handler[] {
  const { resources } = deps;
  const checkTarget = (
    call: Parameters<typeof principalOf>[0] & { signal: AbortSignal },
    app: AppResource,
    service: string | undefined,
  ) =>
    checkRouteTarget(deps, { principal: principalOf(call), signal: call.signal }, app, service, async () => {
      return (await findBasis(deps, app, call.signal))?.spec.processes ?? {};
    });
  const view = (resource: RouteResource): RouteView => {
    const route = viewRoute(resource);
    const isSecure =
      route.type === 'http' && route.domain !== undefined && isShownFor(route.domain, certificates(), deps.now());
    return isSecure ? { ...route, httpsPort: deps.settings.httpsPort } : route;
  };
  return [
    handle(routing.create, async (call) => {
      const { params, body, query, signal } = call;
      const principal = principalOf(call);
      const route = await createRoute(deps, params.app, body, signal, async (app) => {
        await checkTarget(call, app, body.service);
        const { port, tcp } = body;
        const [domain, serverName] = [body.domain, tcp?.serverName].map((name) =>
          typeof name === 'string' ? normalizeDomain(name) : undefined,
        );
        await checkRoutePlace(deps, principal, app, { domain, port, serverName }, signal);
      });
      await reached(deps, [route], { query, signal });
      return view(route);
    }),
    handle(routing.list, async ({ params, query, signal }) => {
      const app = await findApp(deps, params.app, signal);
      const all = await resources.list(routeType, { owner: ownedBy(app.id), signal });
      const sorted = all.toSorted((a, b) => (a.createdAt < b.createdAt ? -1 : a.createdAt > b.createdAt ? 1 : 0));
      return pageOf(sorted, query, ({ id }) => id).map(view);
    }),
    handle(routing.get, async ({ params, signal }) => {
      const app = await findApp(deps, params.app, signal);
      return view(await findRoute(deps, app, params.route, signal));
    }),
    handle(routing.update, async (call) => {
      const { params, body, query, headers, signal } = call;
      const app = await findLiveApp(deps, params.app, signal);
      const route = await findRoute(deps, app, params.route, signal);
      await checkTarget(call, app, body.service);
      const revision = body.revision ?? expectedRevision(headers);
      const changed = await changeRoute(deps, { app, route }, { ...body, revision }, signal);
      await reached(deps, [changed], { query, signal });
      return view(changed);
    }),
    handle(routing.remove, async ({ params, query, signal }) => {
      const app = await findApp(deps, params.app, signal);
      const route = await findRoute(deps, app, params.route, signal);
      await resources.delete(routeType, route.id, { signal });
      await reached(deps, [{ id: route.id }], { query, signal });
    }),
    handle(routing.reach, async ({ params, body, signal }) => {
      await findApp(deps, params.app, signal);
      return { missing: await missingRouters(deps, body.routes, { deadlineMs: body.waitMs, signal }) };
    }),
    handle(routing.stats, async ({ params, query, signal }) => {
      const app = await findApp(deps, params.app, signal);
      const only = query.route === undefined ? undefined : await findRoute(deps, app, query.route, signal);
      const { answers, silent } = await deps.routers.ask(routerStats.all, { query: { app: app.id } }, { signal });
      // What routers tell of other apps' is not for everybody who asks for this one's.
      const own = answers.flat().filter(({ id, appId }) => appId === app.id && (only === undefined || only.id === id));
      const byRoute = Map.groupBy(own, ({ id }) => id);
      const routes = [...byRoute.values()].flatMap(([first, ...more]) =>
        first === undefined ? [] : [sumRouteStats([first, ...more])],
      );
      return { routes, routers: answers.length, silent };
    }),
    handle(routing.beginMaintenance, async ({ params, body, query, signal }) => {
      const changed = await setMaintenance(deps, params.app, body, signal);
      await reached(deps, changed, { query, signal });
      return changed.map(viewRoute);
    }),
    handle(routing.endMaintenance, async ({ params, query, signal }) => {
      const changed = await setMaintenance(deps, params.app, undefined, signal);
      await reached(deps, changed, { query, signal });
      return changed.map(viewRoute);
    }),
    handle(routing.events, async ({ headers, signal }) =>
      routeEvents(deps, await resumeAfter(deps.store, headers, signal), signal),
    ),
  ];
}

/** Of If-Match: the revision, as it is or quoted like an entity tag. */
function expectedRevision(headers: IncomingHttpHeaders): number | undefined {
  const tag = headers['if-match'];
  if (tag === undefined || tag === '*') return undefined;
  const revision = /^"?(\d{1,15})"?$/.exec(tag)?.[1];
  if (revision !== undefined) return Number(revision);
  throw new FlynnError('invalid', `If-Match "${tag}" is no revision of a route: write the number that reading it gave`);
}

const routePrefix = resourcePrefix(routeType.name);

/**
 * All routes, `current`, then changes; resumed, `current` at once, since nothing is missing, and what changed since. As long as
 * there is one that could not be read nothing carries a revision: who resumes behind it would not be told it by who can read it.
 */
async function* routeEvents(deps: Deps, after: number | undefined, signal: AbortSignal): AsyncGenerator<ServerEvent> {
  const unread = new Set<string>();
  const told = (event: RouteEvent): RouteEvent => {
    if (event.event === 'unreadable') unread.add(event.data.id);
    else unread.delete(event.data.id);
    return event;
  };
  let from = after;
  if (from === undefined) {
    const listing = await deps.store.list(routePrefix, { signal });
    for (const entry of listing.entries) yield told(setEvent(deps, entry));
    from = listing.revision;
  }
  yield { ...(unread.size === 0 ? { id: String(from) } : {}), event: 'current', data: {} };
  for await (const batch of deps.store.watch(routePrefix, { after: from, signal })) {
    const events = withRevisions(batch, (change) =>
      told(change.type === 'put' ? setEvent(deps, change.entry) : { event: 'remove', data: { id: idOf(change.key) } }),
    );
    yield* unread.size === 0 ? events : events.map(({ event, data }) => ({ event, data }));
  }
}

type RouteEvent = { event: 'set' | 'unreadable' | 'remove'; data: Readonly<{ id: string }> };

/** One that cannot be read must not cost routers all the others, nor itself: it is told that it is there. */
function setEvent({ log }: Pick<Deps, 'log'>, entry: Entry): RouteEvent {
  try {
    const { http, tcp, ...route } = routeForRouters(decodeResource(routeType, entry));
    // Of a hundred thousand routes most say nothing here: routers know how a route is without.
    const data = { ...route, http: unlike(http, defaultHttp), tcp: unlike(tcp, defaultTcp) };
    return { event: 'set', data };
  } catch (error) {
    log.error({ err: error, entry: entry.key }, 'a route could not be read: routers keep what they know of it');
    return { event: 'unreadable', data: { id: idOf(entry.key) } };
  }
}

function idOf(key: string): string {
  return key.slice(routePrefix.length);
}
