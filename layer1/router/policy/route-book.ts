/** All routes as the controller tells them, ready to be used. A change costs what it changes, not what there is. */
import { isDeepStrictEqual } from 'node:util';
import type { Route } from '@flynn/controller/model';
import type { Logger } from '@flynn/kit/log';
import type { Backends, Service } from '../backends.ts';
import type { Timeouts } from '../exchange.ts';
import type { RouteSink } from '../feed.ts';
import { RouteFigures } from './figures.ts';
import { HostTable } from './host-table.ts';
import { HttpRoute } from './http-route.ts';

/** What is counted of a TCP route: its connections are its requests. */
export type TcpRoute = {
  readonly id: string;
  readonly route: Route;
  readonly service: Service;
  readonly figures: RouteFigures;
};

type Known = { readonly route: Route; readonly http: HttpRoute | undefined; readonly tcp: TcpRoute | undefined };

/**
 * INVARIANTS. A service is watched exactly as long as a route names it, and before the first request can be sent to it.
 * A route that changes keeps what was counted of it.
 */
export class RouteBook implements RouteSink {
  readonly #options: {
    backends: Pick<Backends, 'hold' | 'drop'>;
    defaults: Timeouts;
    now: () => number;
    log: Logger;
  };
  #share: number;
  readonly #known = new Map<string, Known>();
  readonly #hosts = new HostTable<HttpRoute>();
  /** By id. */
  readonly #tcp = new Map<string, TcpRoute>();
  #isKnown = false;

  constructor(options: {
    backends: Pick<Backends, 'hold' | 'drop'>;
    defaults: Timeouts;
    now: () => number;
    log: Logger;
    /** The part of all requests that comes to this process: limits of all together are that much lower. Default 1. */
    share?: number | undefined;
  }) {
    this.#options = options;
    this.#share = options.share ?? 1;
  }

  /** False until all routes were told for the first time. */
  get isKnown(): boolean {
    return this.#isKnown;
  }

  set(route: Route): void {
    const before = this.#known.get(route.id);
    if (before !== undefined && isDeepStrictEqual(before.route, route)) return;
    const { backends, defaults, now, log } = this.#options;
    const service = backends.hold(route.service);
    if (before !== undefined) this.#forget(before);
    let http: HttpRoute | undefined;
    if (route.type === 'http' && route.domain !== undefined && route.domain !== '') {
      http = new HttpRoute(route, { service, nowMs: now(), defaults, share: this.#share, before: before?.http });
      this.#hosts.add(http);
      const unreadable = [...(http.maintenance?.unreadable ?? []), ...(http.gate?.networks.unreadable ?? [])];
      if (unreadable.length > 0) log.warn({ route: route.id, unreadable }, 'these are no addresses or networks');
    }
    let tcp: TcpRoute | undefined;
    if (route.type === 'tcp') {
      const figures = before?.tcp?.figures ?? new RouteFigures(now());
      tcp = { id: route.id, route, service, figures };
      this.#tcp.set(route.id, tcp);
    }
    this.#known.set(route.id, { route, http, tcp });
  }

  remove(id: string): void {
    const known = this.#known.get(id);
    if (known === undefined) return;
    this.#known.delete(id);
    this.#forget(known);
  }

  /** These and no others; `isKnown` from now on. */
  replace(routes: readonly Route[]): void {
    const ids = new Set(routes.map(({ id }) => id));
    // First what comes: of a route that moved to another id, the place is never without one.
    for (const route of routes) this.set(route);
    for (const id of this.#known.keys()) if (!ids.has(id)) this.remove(id);
    this.#isKnown = true;
  }

  /** Another part of all requests comes to this process from now on. */
  takeShare(share: number): void {
    this.#share = share;
    for (const { http } of this.#known.values()) http?.takeShare(share);
  }

  find(host: string, target: string): HttpRoute | undefined {
    return this.#hosts.find(host, target);
  }

  get(id: string): HttpRoute | TcpRoute | undefined {
    const known = this.#known.get(id);
    return known?.http ?? known?.tcp;
  }

  /** As it was told. */
  told(id: string): Route | undefined {
    return this.#known.get(id)?.route;
  }

  get size(): number {
    return this.#known.size;
  }

  /** The TCP routes, by id. */
  get tcp(): ReadonlyMap<string, TcpRoute> {
    return this.#tcp;
  }

  /** Those of which something is counted. */
  *counted(): Generator<HttpRoute | TcpRoute> {
    for (const { http, tcp } of this.#known.values()) {
      const one = http ?? tcp;
      if (one !== undefined) yield one;
    }
  }

  #forget({ route, http }: Known): void {
    if (http !== undefined) this.#hosts.remove(http);
    this.#tcp.delete(route.id);
    this.#options.backends.drop(route.service);
  }
}
