/** Making a route: two for the same place cannot exist, that is their name. */
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { shortId } from '@flynn/kit/ids';
import { nameKey } from '@flynn/resource/keys';
import { compareOf, refusal } from '@flynn/resource/record';
import { checkUndivided } from '../access/neighbours.ts';
import { serviceNameOf } from '../processes/compile.ts';
import { forLiveApp, isOvertaken } from '../deps.ts';
import type { Deps } from '../deps.ts';
import { ownedBy, routeType } from '../resources.ts';
import type { AppResource, RouteResource } from '../resources.ts';
import { freePort, normalizeDomain, normalizePath } from './address.ts';
import { portUse } from './ports.ts';
import { withReleaseIds } from './releases.ts';
import { changedHttp, changedTcp } from './rules.ts';
import { httpSettingsSchema, tcpSettingsSchema } from './settings.ts';
import type { HttpChange, TcpChange } from './settings.ts';

const maxPortAttempts = 10;

export type NewRoute = {
  type: 'http' | 'tcp';
  domain?: string | undefined;
  path?: string | undefined;
  port?: number | undefined;
  service?: string | undefined;
  http?: HttpChange | undefined;
  tcp?: TcpChange | undefined;
};

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
  if (body.tcp !== undefined) throw wrongSettings('tcp', 'http');
  const domain = normalizeDomain(body.domain);
  const path = normalizePath(body.path ?? '/');
  await checkUndivided(deps, app, domain, signal);
  const http = changedHttp(httpSettingsSchema.parse({}), await withReleaseIds(deps, app, body.http ?? {}, signal));
  try {
    return await createAt(deps, app, { type: 'http', domain, path, service: serviceOf(app, body), http }, signal);
  } catch (error) {
    if (!hasCode(error, 'conflict') || isOvertaken(error, app)) throw error;
    const where = path === '/' ? domain : `${domain}${path}`;
    throw new FlynnError('conflict', `there is already a route for ${where}: remove it first, or choose another`, {
      cause: error,
    });
  }
}

async function createTcp(deps: Deps, app: AppResource, body: NewRoute, signal: AbortSignal): Promise<RouteResource> {
  const { settings, resources } = deps;
  if (body.domain !== undefined || body.path !== undefined) {
    throw new FlynnError('invalid', 'a tcp route has a port only: domain and path are for http routes');
  }
  if (body.http !== undefined) throw wrongSettings('http', 'tcp');
  const tcp = changedTcp(tcpSettingsSchema.parse({}), body.tcp ?? {});
  if (body.port !== undefined) checkPort(body.port, settings);
  else if (tcp.serverName !== undefined) {
    throw new FlynnError('invalid', 'say at which port clients ask for that server name: several names may share it');
  }
  for (let attempt = 1; ; attempt += 1) {
    const taken = await resources.list(routeType, { signal, where: ({ spec }) => spec.type === 'tcp' });
    const port =
      body.port ??
      freePort(
        taken.flatMap(({ spec }) => spec.port ?? []),
        settings.tcpPorts,
      );
    const others = taken.filter(({ spec }) => spec.port === port);
    if (others.some(({ spec }) => (spec.tcp.serverName === undefined) !== (tcp.serverName === undefined))) {
      throw portTaken(port, tcp.serverName);
    }
    try {
      const route = await createAt(deps, app, { type: 'tcp', port, service: serviceOf(app, body), tcp }, signal);
      if (tcp.serverName === undefined) await checkAlone(deps, route, port, signal);
      return route;
    } catch (error) {
      if (!hasCode(error, 'conflict') || isOvertaken(error, app)) throw error;
      if (body.port !== undefined) throw portTaken(port, tcp.serverName, error);
      // Somebody took that port in between.
      if (attempt >= maxPortAttempts) throw error;
    }
  }
}

/**
 * A port is one route's, or shared by server names. Routes of server names compare that there is no other kind, which
 * cannot be done the other way round: so whoever has a port for itself looks afterwards, and gives way.
 */
async function checkAlone(deps: Deps, route: RouteResource, port: number, signal: AbortSignal): Promise<void> {
  const { entries } = await deps.store.list(nameKey(routeType.name, `tcp:${port}/`), { signal });
  if (entries.length === 0) return;
  await deps.resources.delete(routeType, route.id, { signal });
  throw new FlynnError('conflict', `port ${port} is shared by server names`);
}

type Place = {
  type: 'http' | 'tcp';
  domain?: string;
  path?: string;
  port?: number;
  service: string;
  http?: RouteResource['spec']['http'];
  tcp?: RouteResource['spec']['tcp'];
};

function createAt(deps: Deps, app: AppResource, place: Place, signal: AbortSignal): Promise<RouteResource> {
  const { port, tcp } = place;
  const isShared = tcp?.serverName !== undefined;
  const alone = isShared ? [{ key: nameKey(routeType.name, `tcp:${port}`), modRevision: 0 }] : [];
  return deps.resources.create(
    routeType,
    { id: shortId(), owner: ownedBy(app.id), spec: { appId: app.id, ...place } },
    { signal, also: () => ({ compare: [compareOf(app), ...alone] }) },
  );
}

function serviceOf(app: AppResource, { service }: NewRoute): string {
  return service ?? serviceNameOf(app.spec.name, 'web');
}

function checkPort(port: number, own: Pick<Deps['settings'], 'httpPort' | 'httpsPort'>): void {
  if (port < 1 || port > 65_535) {
    throw new FlynnError('invalid', `${port} is not a port: choose one from 1 to 65535`);
  }
  // The router would share it, and half of what comes there, for the platform itself say, would end up here.
  const use = portUse(port, own);
  if (use === undefined) return;
  throw new FlynnError('conflict', `port ${port} is for ${use}: leave the port out to get a free one`);
}

function portTaken(port: number, serverName: string | undefined, cause?: unknown): FlynnError {
  const what =
    serverName === undefined
      ? `there is already a route on port ${port}: leave the port out to get a free one`
      : `port ${port} has a route for ${serverName}, or one for all names, already: choose another port, or remove that`;
  return new FlynnError('conflict', what, { cause });
}

export function wrongSettings(given: 'http' | 'tcp', type: 'http' | 'tcp'): FlynnError {
  return refusal('route', [
    {
      path: given,
      message: `these settings are for ${given} routes, and this is ${type === 'http' ? 'an' : 'a'} ${type} route`,
    },
  ]);
}
