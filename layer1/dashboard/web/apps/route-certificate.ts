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

/**
 * The one that routers show there. If there is none for that name, one that is to come: for the very name, else for all names
 * beside it.
 */
export function certificateOf(
  { type, domain }: Pick<RouteView, 'type' | 'domain'>,
  all: readonly Certificate[],
): Certificate | undefined {
  if (type === 'tcp' || domain === undefined) return undefined;
  const names = [domain, wildcardOver(domain)];
  for (const name of names) {
    const [shown] = all.filter((one) => servedFor(one).includes(name)).toSorted(byPrecedence);
    if (shown !== undefined) return shown;
  }
  return names.flatMap((name) => all.filter(({ domains }) => domains.includes(name)))[0];
}

/** Whether it is what is shown at that name, and not only to come there. */
export function isShown(certificate: Certificate, { domain }: Pick<RouteView, 'domain'>): boolean {
  if (domain === undefined) return false;
  const names = servedFor(certificate);
  return names.includes(domain) || names.includes(wildcardOver(domain));
}

/** Changes of routes do not tell whether TLS is spoken for their names; certificates do. */
export function withTls(route: RouteView, all: readonly Certificate[]): RouteView {
  const certificate = certificateOf(route, all);
  const isGood = certificate !== undefined && isShown(certificate, route) && certificate.state !== 'expired';
  return route.httpsPort === undefined && isGood ? { ...route, httpsPort: usualHttpsPort } : route;
}

/** A controller of a version before serves what there is for all its names. */
function servedFor({ servedFor: names, domains, notAfter }: Certificate): readonly string[] {
  return notAfter === undefined ? [] : (names ?? domains);
}

function wildcardOver(domain: string): string {
  return `*.${domain.split('.').slice(1).join('.')}`;
}

/** As routers choose: people's own, then the one that is good longest. */
function byPrecedence(a: Certificate, b: Certificate): number {
  if (a.source !== b.source) return a.source === 'own' ? -1 : 1;
  return Date.parse(b.notAfter ?? '') - Date.parse(a.notAfter ?? '') || (a.id < b.id ? -1 : 1);
}
