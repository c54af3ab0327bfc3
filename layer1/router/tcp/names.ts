/** Which of the routes that share a port does a client mean? */
import type { Route } from '@flynn/controller/model';

export type PortRoutes = {
  /** For every connection, whatever it says. */
  readonly whole: Route | undefined;
  /** By the server name that is asked for by TLS; what begins with `*.` stands for one label more. */
  readonly byName: ReadonlyMap<string, Route>;
};

/** By port. */
export function portsOf(routes: Iterable<Route>): Map<number, PortRoutes> {
  const ports = new Map<number, { whole: Route | undefined; byName: Map<string, Route> }>();
  for (const route of routes) {
    const { type, port, tcp } = route;
    if (type !== 'tcp' || port === undefined) continue;
    const known = ports.get(port) ?? { whole: undefined, byName: new Map<string, Route>() };
    if (tcp.serverName === undefined) known.whole = route;
    else known.byName.set(tcp.serverName.toLowerCase(), route);
    ports.set(port, known);
  }
  return ports;
}

/** A name's own route comes before a wildcard's, that before the one for everybody. */
export function routeFor({ whole, byName }: PortRoutes, serverName: string | undefined): Route | undefined {
  if (serverName === undefined) return whole;
  const dot = serverName.indexOf('.');
  return byName.get(serverName) ?? (dot > 0 ? byName.get(`*${serverName.slice(dot)}`) : undefined) ?? whole;
}
