/** Where does a person find the platform's own web page? At a route of the platform's app of that name, and of no other. */
import { FlynnError, ifFound } from '@flynn/kit/errors';
import { isShownFor } from '../certificates/shown.ts';
import type { Shown } from '../certificates/shown.ts';
import { findApp } from '../deps.ts';
import type { Deps } from '../deps.ts';
import { zoneOf } from '../routes/address.ts';
import { ownedBy, routeType } from '../resources.ts';
import { httpUrlOf } from '../routes/url.ts';

const dashboardApp = 'dashboard';

/** Names that people gave it before the cluster's own, and those with a certificate before all. Throws `not_found`. */
export async function dashboardUrl(
  deps: Pick<Deps, 'resources' | 'settings' | 'now'>,
  certificates: () => Iterable<Shown>,
  signal: AbortSignal,
): Promise<string> {
  const { settings, resources, now } = deps;
  const app = await ifFound(findApp(deps, dashboardApp, signal));
  if (app?.spec.isSystem !== true) {
    const why =
      app === undefined ? 'it was deleted, or none came with this version' : 'an app of somebody has its name';
    throw new FlynnError('not_found', `this cluster has no web page of its own: ${why}`);
  }
  const routes = await resources.list(routeType, { owner: ownedBy(app.id), signal });
  const domains = [settings.domain, ...settings.formerDomains];
  const found = routes.flatMap(({ spec }) => {
    if (spec.type !== 'http' || spec.path !== '/') return [];
    const { domain = '', path } = spec;
    const isSecure = isShownFor(domain, certificates(), now());
    const zone = zoneOf(domain, domains);
    const url = httpUrlOf({ domain, path, ...(isSecure ? { httpsPort: settings.httpsPort } : {}) }, settings);
    return [{ url, rank: (isSecure ? 0 : 10) + (zone === undefined ? 0 : 1 + domains.indexOf(zone)) }];
  });
  const [best] = found.toSorted((a, b) => a.rank - b.rank || (a.url < b.url ? -1 : 1));
  if (best !== undefined) return best.url;
  throw new FlynnError(
    'not_found',
    `the web page has no route: an admin adds one with "flynn -a ${dashboardApp} route add http dashboard.${settings.domain}", where no other app has that, or with another name`,
  );
}
