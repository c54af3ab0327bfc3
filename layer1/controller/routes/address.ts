/** Where a route listens, in the one form it is compared in. Pure. */
import { FlynnError } from '@flynn/kit/errors';

export type PortRange = Readonly<{ first: number; last: number }>;

/** Where tcp routes that name no port are, unless the cluster says otherwise. */
export const tcpPorts: PortRange = { first: 3000, last: 3500 };

/** What no two routes share: their name. */
export function routePlace(route: {
  type: 'http' | 'tcp';
  domain?: string | undefined;
  path: string;
  port?: number | undefined;
  tcp?: { serverName?: string | undefined };
}): string {
  if (route.type === 'http') return `${route.domain ?? ''}${route.path}`;
  const name = route.tcp?.serverName;
  return name === undefined ? `tcp:${route.port ?? ''}` : `tcp:${route.port ?? ''}/${name}`;
}

/**
 * Lower case, labels of letters, digits and dashes, at most one wildcard label in front; `*` alone; or an IPv6 address in
 * brackets.
 */
export function normalizeDomain(text: string): string {
  const domain = text.trim().toLowerCase().replace(/\.$/, '');
  if (domain === '*') return domain;
  if (/^\[[0-9a-f:.]+\]$/.test(domain) && URL.canParse(`http://${domain}`)) return new URL(`http://${domain}`).hostname;
  const isPort = /:\d+$/.test(domain);
  if (domain.includes('/') || isPort) {
    throw new FlynnError(
      'invalid',
      `"${text}" is not a host name: leave out the scheme, port and path, like shop.example.com`,
    );
  }
  const name = domain.startsWith('*.') ? domain.slice(2) : domain;
  const labels = name.split('.');
  const isValid = domain.length <= 253 && labels.every((label) => /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/.test(label));
  if (!isValid) {
    throw new FlynnError(
      'invalid',
      `"${text}" is not a host name: use letters, digits, dashes and dots, like shop.example.com or *.example.com`,
    );
  }
  return domain;
}

/** Which of the domains a name is of: the longest, for one may be within another. */
export function zoneOf(name: string, domains: readonly string[]): string | undefined {
  return domains
    .filter((domain) => name === domain || name.endsWith(`.${domain}`))
    .toSorted((a, b) => b.length - a.length)[0];
}

/** With a leading slash and without one at the end. */
export function normalizePath(text: string): string {
  if (!text.startsWith('/') || /[\s?#]/.test(text)) {
    throw new FlynnError('invalid', `"${text}" is not a path: it starts with / and has no spaces, ? or #`);
  }
  const path = text.replaceAll(/\/{2,}/g, '/').replace(/\/$/, '');
  return path === '' ? '/' : path;
}

/** The lowest port nobody has. */
export function freePort(taken: Iterable<number>, range: PortRange = tcpPorts): number {
  const used = new Set(taken);
  for (let port = range.first; port <= range.last; port += 1) if (!used.has(port)) return port;
  throw new FlynnError(
    'exhausted',
    `all ports from ${range.first} to ${range.last} are taken: name one outside of them, or remove a route`,
  );
}
