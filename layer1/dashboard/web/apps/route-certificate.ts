/** Which certificate is shown for a route's name? Pure. */
import type { Certificate } from '@flynn/controller/certificates/model';
import type { RouteView } from '@flynn/controller/routes/api';
import type { Tone } from '../parts/tone.ts';

const usualHttpsPort = 443;

export const certificateTone: Readonly<Record<Certificate['state'], Tone>> = {
  ready: 'good',
  waiting: 'busy',
  failing: 'bad',
  expired: 'bad',
};

/** One for the very name goes before one for all names beside it; of several, one that is there before one that is to come. */
export function certificateOf(
  { type, domain }: Pick<RouteView, 'type' | 'domain'>,
  all: readonly Certificate[],
): Certificate | undefined {
  if (type === 'tcp' || domain === undefined) return undefined;
  const wild = `*.${domain.split('.').slice(1).join('.')}`;
  const forName = (name: string): Certificate | undefined => {
    const found = all.filter(({ domains }) => domains.includes(name));
    return found.find(({ state }) => state === 'ready') ?? found[0];
  };
  return forName(domain) ?? forName(wild);
}

/** Changes of routes do not tell whether TLS is spoken for their names; certificates do. */
export function withTls(route: RouteView, all: readonly Certificate[]): RouteView {
  const certificate = certificateOf(route, all);
  const isShown = certificate?.notAfter !== undefined && certificate.state !== 'expired';
  return route.httpsPort === undefined && isShown ? { ...route, httpsPort: usualHttpsPort } : route;
}
