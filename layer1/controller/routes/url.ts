/** What does one type into a browser to get to a route? Pure. */
import type { RouteView } from './api.ts';

/** https:// once a certificate is shown for its name, else in clear at the cluster's port. */
export function httpUrlOf(
  { domain = '', path, httpsPort }: Pick<RouteView, 'domain' | 'path' | 'httpsPort'>,
  cluster: { httpPort: number },
): string {
  const [scheme, port, usual] = httpsPort === undefined ? ['http', cluster.httpPort, 80] : ['https', httpsPort, 443];
  return `${scheme}://${domain}${port === usual ? '' : `:${port}`}${path === '/' ? '' : path}`;
}
