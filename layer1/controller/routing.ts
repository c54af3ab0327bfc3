/** Routes: which host name or port leads to which service. Two routes for the same place cannot exist: that is their name. */
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { shortId } from '@flynn/kit/ids';
import type { ServerEvent } from '@flynn/kit/routes';
import { resourcePrefix } from '@flynn/resource/keys';
import { compareOf, decodeResource } from '@flynn/resource/record';
import type { z } from 'zod';
import { checkRoutePlace, checkRouteTarget } from './access/neighbours.ts';
import { principalOf } from './access/principal.ts';
import { routing } from './api.ts';
import { serviceNameOf } from './compile.ts';
import { findApp, forLiveApp, isOvertaken } from './deps.ts';
import type { Deps } from './deps.ts';
import { resumePoint, withRevisions } from './event-stream.ts';
import { pageOf } from './paging.ts';
import { findBasis } from './releases.ts';
import { ownedBy, routeType } from './resources.ts';
import type { AppResource, RouteResource } from './resources.ts';
import { freePort, normalizeDomain, normalizePath } from './route-address.ts';
import { viewRoute } from './views.ts';

const maxPortAttempts = 10;

export function routingHandlers(deps: Deps): Handler[] {
  const { resources } = deps;
  return [
    handle(routing.create, async (call) => {
      const { params, body, signal } = call;
      const principal = principalOf(call);
      const route = await createRoute(deps, params.app, body, signal, async (app) => {
        await checkRouteTarget(principal, app, body.service, async () => {
          return (await findBasis(deps, app, signal))?.spec.processes ?? {};
        });
        if (body.domain === undefined) return;
        await checkRoutePlace(deps, principal, app, normalizeDomain(body.domain), signal);
      });
      return viewRoute(route);
    }),
    handle(routing.list, async ({ params, query, signal }) => {
      const app = await findApp(deps, params.app, signal);
      const all = await resources.list(routeType, { owner: ownedBy(app.id), signal });
      const sorted = all.toSorted((a, b) => (a.createdAt < b.createdAt ? -1 : a.createdAt > b.createdAt ? 1 : 0));
      return pageOf(sorted, query, ({ id }) => id).map(viewRoute);
    }),
    handle(routing.remove, async ({ params, signal }) => {
      const app = await findApp(deps, params.app, signal);
      const route = await resources.find(routeType, params.route, { signal });
      if (route?.spec.appId !== app.id) {
        throw new FlynnError(
          'not_found',
          `${app.spec.name} has no route ${params.route}; list them with: flynn route -a ${app.spec.name}`,
        );
      }
      await resources.delete(routeType, route.id, { signal });
    }),
    handle(routing.events, async ({ headers, signal }) => routeEvents(deps, resumePoint(headers), signal)),
  ];
}

type NewRoute = z.output<NonNullable<typeof routing.create.body>>;

/** `check` throws unless whoever asks may have it so. */
export function createRoute(
  deps: Deps,
  app: string,
  body: NewRoute,
  signal: AbortSignal,
  check?: (app: AppResource) => Promise<void>,
): Promise<RouteResource> {
  const create = body.type === 'http' ? createHttp : createTcp;
  return forLiveApp(deps, app, signal, async (live) => {
    await check?.(live);
    return create(deps, live, body, signal);
  });
}

async function createHttp(deps: Deps, app: AppResource, body: NewRoute, signal: AbortSignal): Promise<RouteResource> {
  if (body.domain === undefined) throw new FlynnError('invalid', 'an http route needs a domain, like shop.example.com');
  if (body.port !== undefined)
    throw new FlynnError('invalid', 'an http route has no port: it answers on the router’s own');
  const domain = normalizeDomain(body.domain);
  const path = normalizePath(body.path ?? '/');
  const service = body.service ?? serviceNameOf(app.spec.name, 'web');
  try {
    return await deps.resources.create(
      routeType,
      { id: shortId(), owner: ownedBy(app.id), spec: { appId: app.id, type: 'http', domain, path, service } },
      { signal, also: () => ({ compare: [compareOf(app)] }) },
    );
  } catch (error) {
    if (!hasCode(error, 'conflict') || isOvertaken(error, app)) throw error;
    const where = path === '/' ? domain : `${domain}${path}`;
    throw new FlynnError('conflict', `there is already a route for ${where}: remove it first, or choose another`, {
      cause: error,
    });
  }
}

async function createTcp(deps: Deps, app: AppResource, body: NewRoute, signal: AbortSignal): Promise<RouteResource> {
  if (body.domain !== undefined || body.path !== undefined) {
    throw new FlynnError('invalid', 'a tcp route has a port only: domain and path are for http routes');
  }
  if (body.port !== undefined && (body.port < 1 || body.port > 65_535)) {
    throw new FlynnError('invalid', `${body.port} is not a port: choose one from 1 to 65535`);
  }
  // The router would share it, and half of all requests to every app, and to the controller, would end up here.
  if (body.port === deps.settings.httpPort || body.port === deps.settings.httpsPort) {
    throw new FlynnError(
      'conflict',
      `port ${body.port} is one the router answers http on itself: leave the port out to get a free one`,
    );
  }
  const service = body.service ?? serviceNameOf(app.spec.name, 'web');
  for (let attempt = 1; ; attempt += 1) {
    const taken = await deps.resources.list(routeType, { signal, where: ({ spec }) => spec.type === 'tcp' });
    const port = body.port ?? freePort(taken.flatMap(({ spec }) => (spec.port === undefined ? [] : [spec.port])));
    try {
      return await deps.resources.create(
        routeType,
        { id: shortId(), owner: ownedBy(app.id), spec: { appId: app.id, type: 'tcp', path: '/', port, service } },
        { signal, also: () => ({ compare: [compareOf(app)] }) },
      );
    } catch (error) {
      if (!hasCode(error, 'conflict') || isOvertaken(error, app)) throw error;
      if (body.port !== undefined) {
        throw new FlynnError(
          'conflict',
          `there is already a route on port ${port}: leave the port out to get a free one`,
          { cause: error },
        );
      }
      // Somebody took that port in between.
      if (attempt >= maxPortAttempts) throw error;
    }
  }
}

/** All routes, `current`, then changes; resumed, only what changed since. */
async function* routeEvents(deps: Deps, after: number | undefined, signal: AbortSignal): AsyncGenerator<ServerEvent> {
  const prefix = resourcePrefix(routeType.name);
  let from = after;
  if (from === undefined) {
    const listing = await deps.store.list(prefix, { signal });
    for (const entry of listing.entries) yield { event: 'set', data: viewRoute(decodeResource(routeType, entry)) };
    from = listing.revision;
    yield { id: String(from), event: 'current', data: {} };
  }
  for await (const batch of deps.store.watch(prefix, { after: from, signal })) {
    yield* withRevisions(batch, (change) =>
      change.type === 'put'
        ? { event: 'set', data: viewRoute(decodeResource(routeType, change.entry)) }
        : { event: 'remove', data: { id: change.key.slice(prefix.length) } },
    );
  }
}
