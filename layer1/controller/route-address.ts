/** Where a route listens, in the one form it is compared in. Pure. */
import { FlynnError } from '@flynn/kit/errors';

export const tcpPorts = { first: 3000, last: 3500 } as const;

/** Lower case, labels of letters, digits and dashes, at most one wildcard label in front. */
export function normalizeDomain(text: string): string {
  const domain = text.trim().toLowerCase().replace(/\.$/, '');
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

/** With a leading slash and without one at the end. */
export function normalizePath(text: string): string {
  if (!text.startsWith('/') || /[\s?#]/.test(text)) {
    throw new FlynnError('invalid', `"${text}" is not a path: it starts with / and has no spaces, ? or #`);
  }
  const path = text.replaceAll(/\/{2,}/g, '/').replace(/\/$/, '');
  return path === '' ? '/' : path;
}

/** The lowest port nobody has. */
export function freePort(taken: readonly number[]): number {
  const used = new Set(taken);
  for (let port = tcpPorts.first; port <= tcpPorts.last; port += 1) if (!used.has(port)) return port;
  throw new FlynnError(
    'exhausted',
    `all ports from ${tcpPorts.first} to ${tcpPorts.last} are taken: name one outside of them, or remove a route`,
  );
}
