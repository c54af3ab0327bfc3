/** Which route does a request belong to? */
import type { Route } from '@flynn/controller/model';

type ByPath = readonly { path: string; route: Route }[];

export type RouteTable = {
  /** By host name; the longest path first. */
  readonly exact: ReadonlyMap<string, ByPath>;
  /** By what follows `*.`. */
  readonly wildcard: ReadonlyMap<string, ByPath>;
  /** By port. */
  readonly tcp: ReadonlyMap<number, Route>;
};

export function buildTable(routes: Iterable<Route>): RouteTable {
  const exact = new Map<string, { path: string; route: Route }[]>();
  const wildcard = new Map<string, { path: string; route: Route }[]>();
  const tcp = new Map<number, Route>();
  for (const route of routes) {
    if (route.type === 'tcp') {
      if (route.port !== undefined) tcp.set(route.port, route);
      continue;
    }
    const domain = normalizeHost(route.domain);
    if (domain === undefined) continue;
    const [map, name] = domain.startsWith('*.') ? [wildcard, domain.slice(2)] : [exact, domain];
    const entries = map.get(name) ?? [];
    entries.push({ path: withoutTrailingSlash(route.path), route });
    map.set(name, entries);
  }
  for (const entries of [...exact.values(), ...wildcard.values()]) {
    entries.sort((a, b) => b.path.length - a.path.length);
  }
  return { exact, wildcard, tcp };
}

/**
 * The host's own routes come before those of a wildcard, which stands for exactly one label. Among a host's routes the
 * longest path wins; `/a` matches `/a` and `/a/b` but not `/ab`.
 */
export function matchRoute(table: RouteTable, host: string | undefined, target: string): Route | undefined {
  const name = normalizeHost(host);
  if (name === undefined) return undefined;
  const path = target.split('?', 1)[0] ?? '';
  const dot = name.indexOf('.');
  const own = matchPath(table.exact.get(name), path);
  if (own !== undefined || dot <= 0) return own;
  return matchPath(table.wildcard.get(name.slice(dot + 1)), path);
}

function matchPath(entries: ByPath | undefined, path: string): Route | undefined {
  return entries?.find((entry) => entry.path === '' || path === entry.path || path.startsWith(`${entry.path}/`))?.route;
}

/** Lower case, without port and without the dot of a fully qualified name. */
export function normalizeHost(host: string | undefined): string | undefined {
  if (host === undefined) return undefined;
  const name = host.startsWith('[') ? host.slice(0, host.indexOf(']') + 1) : host.split(':', 1)[0];
  const plain = name?.toLowerCase().replace(/\.$/, '');
  return plain === '' ? undefined : plain;
}

function withoutTrailingSlash(path: string): string {
  return path.replace(/\/+$/, '');
}
