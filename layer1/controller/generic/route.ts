/** The kind Route: made and changed by the same rules as by hand. */
import { refusal } from '@flynn/resource/record';
import { serviceName } from '@flynn/kit/names';
import { z } from 'zod';
import { checkRoutePlace, checkRouteTarget } from '../access/neighbours.ts';
import { serviceNameOf } from '../processes/compile.ts';
import { findApp } from '../deps.ts';
import type { Deps } from '../deps.ts';
import { differences } from './difference.ts';
import { atField } from './fields.ts';
import { defineKind } from './kind.ts';
import type { Applied, ApplyContext, Wanted } from './kind.ts';
import { defaultSettings, shownSettings } from './route-settings.ts';
import { findBasis } from '../releases/releases.ts';
import { appType, routeType } from '../resources.ts';
import type { AppResource, RouteResource } from '../resources.ts';
import { normalizeDomain, normalizePath, routePlace } from '../routes/address.ts';
import { changeRoute } from '../routes/changes.ts';
import { withoutHashes } from '../routes/guard.ts';
import { createRoute, wrongSettings } from '../routes/creation.ts';
import { withReleaseIds } from '../routes/releases.ts';
import { changedHttp, changedTcp, routeIssues } from '../routes/rules.ts';
import { httpChangeSchema, tcpChangeSchema } from '../routes/settings.ts';
import type { HttpChange, TcpChange } from '../routes/settings.ts';

const wantedRouteSchema = z.strictObject({
  domain: z.string().optional(),
  path: z.string().optional(),
  port: z.int().min(1).max(65_535).optional(),
  /** Default: APP-web. */
  service: serviceName.optional(),
  /** What is left out stays, null takes a setting back. */
  http: httpChangeSchema.optional(),
  tcp: tcpChangeSchema.optional(),
});

export const routeKind = defineKind({
  type: routeType,
  summary: 'where an app answers: a domain and a path, or a port',
  columns: { APP: 'owner', SERVICE: 'spec.service' },
  wanted: wantedRouteSchema,
  appliesPatches: true,
  // Of a file of everything it is part of the app.
  isExported: false,
  async view(_deps, { spec }) {
    return { spec: shownSpec(spec) };
  },
  async target(deps, { name: named, owner, spec }, { signal }) {
    const name = placeOf(spec).name;
    const [current] = await deps.resources.list(routeType, { object: name, signal });
    if (owner !== undefined && current !== undefined && current.owner?.id !== owner.id) {
      throw refusal(`route ${name}`, [{ path: 'owner', message: 'another app has this route' }]);
    }
    // Whoever names it means the one there is.
    return { current, owner: named === undefined ? owner : (owner ?? current?.owner) };
  },
  apply: applyRoute,
  withoutSecrets: ({ http, ...spec }) => (http === undefined ? spec : { ...spec, http: withoutHashes(http) }),
});

/** As a file would have it: settings that are as they are without saying are left out. */
function shownSpec({ domain, path, port, service, http, tcp }: RouteResource['spec']): object {
  const where = port === undefined ? { ...(domain === undefined ? {} : { domain }), path } : { port };
  return { ...where, service, ...shownSettings({ http, tcp }) };
}

type WantedRoute = z.output<typeof wantedRouteSchema>;

/** Where it is, by which there is one: its name. Throws `invalid`. */
function placeOf(spec: WantedRoute) {
  const isHttp = spec.port === undefined;
  if (isHttp === (spec.domain === undefined)) {
    throw refusal('route', [{ path: '', message: 'a route has a domain (and a path), or a port' }]);
  }
  const type: 'http' | 'tcp' = isHttp ? 'http' : 'tcp';
  const address = isHttp
    ? {
        domain: atField('route', 'domain', () => normalizeDomain(spec.domain ?? '')),
        path: atField('route', 'path', () => normalizePath(spec.path ?? '/')),
      }
    : { path: '/', port: spec.port };
  const asked = spec.tcp?.serverName;
  const serverName = isHttp || typeof asked !== 'string' ? undefined : normalizeDomain(asked);
  return { type, isHttp, address, name: routePlace({ type, ...address, tcp: { serverName } }) };
}

/** Its name is its place, so it can be left out. */
async function applyRoute(
  deps: Deps,
  { owner, spec, revision }: Wanted<WantedRoute>,
  { isDryRun, signal, principal, current }: ApplyContext<RouteResource>,
): Promise<Applied> {
  const { type, isHttp, address, name } = placeOf(spec);
  if (owner?.type !== 'app') {
    throw refusal('route', [{ path: 'owner', message: 'it belongs to an app, say which: owner: app/NAME' }]);
  }
  // That of a dry run may be about to be made.
  const app = isDryRun
    ? await deps.resources.find(appType, owner.id, { signal })
    : await findApp(deps, owner.id, signal);
  const service = spec.service ?? current?.spec.service ?? serviceNameOf(app?.spec.name ?? owner.id, 'web');
  const settings = isHttp ? { http: spec.http } : { tcp: spec.tcp };
  if ((isHttp ? spec.tcp : spec.http) !== undefined) throw wrongSettings(isHttp ? 'tcp' : 'http', type);
  const next = await nextSpec(
    deps,
    { current, app, wanted: { appId: owner.id, type, ...address, service }, settings },
    signal,
  );
  const changes = differences(current === undefined ? {} : { spec: shownSpec(current.spec) }, {
    spec: shownSpec(next),
  });
  if (app !== undefined && changes.length > 0) {
    const processes = async () => (await findBasis(deps, app, signal))?.spec.processes ?? {};
    await checkRouteTarget(deps, { principal, signal }, app, service, processes);
    const { domain, port, tcp } = next;
    await checkRoutePlace(deps, principal, app, { domain, port, serverName: tcp.serverName }, signal);
  }
  if (!isDryRun && current === undefined) {
    const { path, ...port } = address;
    await createRoute(deps, owner.id, { type, ...(isHttp ? { ...port, path } : port), service, ...settings }, signal);
  } else if (!isDryRun && app !== undefined && current !== undefined && changes.length > 0) {
    await changeRoute(deps, { app, route: current }, { service, ...settings, revision }, signal);
  }
  return { name, isNew: current === undefined, changes };
}

type Next = {
  current: RouteResource | undefined;
  app: AppResource | undefined;
  wanted: Pick<RouteResource['spec'], 'appId' | 'type' | 'domain' | 'path' | 'port' | 'service'>;
  settings: { http?: HttpChange | undefined; tcp?: TcpChange | undefined };
};

/** What it would be, checked as if it were written. */
async function nextSpec(
  deps: Deps,
  { current, app, wanted, settings }: Next,
  signal: AbortSignal,
): Promise<RouteResource['spec']> {
  const { http = {}, tcp = {} } = settings;
  const known = app === undefined ? http : await withReleaseIds(deps, app, http, signal);
  const next = {
    ...wanted,
    http: changedHttp(current?.spec.http ?? defaultSettings.http, known),
    tcp: changedTcp(current?.spec.tcp ?? defaultSettings.tcp, tcp),
  };
  const issues = routeIssues(next);
  if (issues.length > 0) throw refusal('route', issues);
  return next;
}
