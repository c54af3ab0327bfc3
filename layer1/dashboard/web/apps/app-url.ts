/** Where does one reach an app? Pure. */
import { httpUrlOf } from '@flynn/controller/routes/url';
import type { RouteView } from '@flynn/controller/routes/api';

export function urlOf(route: RouteView, cluster: { httpPort: number; domain: string }): string {
  if (route.type === 'http') return httpUrlOf(route, cluster);
  const { serverName } = route.tcp;
  const at = `${serverName ?? cluster.domain}:${route.port ?? ''}`;
  return serverName === undefined ? `tcp://${at}` : `tls://${at}`;
}

/** The one to show of several: the newest with a name of its own, else the one that the app was made with. */
export function mainRoute(routes: readonly RouteView[], domain: string): RouteView | undefined {
  const web = routes.filter(({ type, domain: name }) => type === 'http' && name !== undefined && !name.includes('*'));
  return web.findLast((route) => route.domain?.endsWith(`.${domain}`) === false) ?? web[0];
}
