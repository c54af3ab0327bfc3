/** The router: its parts put together, and their common start and stop. */
import type { BlockList } from 'node:net';
import type { DiscoveryClient } from '@flynn/discovery/client';
import type { Route } from '@flynn/controller/model';
import type { HttpClient } from '@flynn/kit/http-client';
import type { Logger } from '@flynn/kit/log';
import { raceAbort, waitFor } from '@flynn/kit/retry';
import { TaskGroup } from '@flynn/kit/tasks';
import type { Counters, Status } from './api.ts';
import { Backends } from './backends.ts';
import type { Driver } from './config.ts';
import { RouteList, everySink, followRoutes } from './feed.ts';
import { HttpListener } from './http-listener.ts';
import { Http1Front } from './http1/front.ts';
import { Knowledge } from './knowledge.ts';
import { Proxy } from './proxy.ts';
import type { Timeouts } from './proxy.ts';
import { acceptPlain, acceptProxied } from './proxy-protocol/acceptance.ts';
import { ReferenceFront } from './reference/front.ts';
import { buildTable } from './table.ts';
import type { RouteTable } from './table.ts';
import { TcpRoutes } from './tcp/routes.ts';
import { Challenges, answeringChallenges } from './tls/challenges.ts';
import type { TlsProfile } from './tls/profile.ts';
import { TlsPort } from './tls/port.ts';

export const defaultTimeouts: Timeouts = { dialMs: 1_000, firstByteMs: 30_000, idleMs: 55_000 };

export type RouterOptions = {
  controller: Pick<HttpClient, 'events'>;
  discovery: Pick<DiscoveryClient, 'openServiceSet'>;
  host?: string;
  httpPort: number;
  /** Who speaks HTTP/1: the router's own front, or the one on node:http. */
  driver?: Driver;
  /** Without it there is no listening for TLS. */
  tls?: { port: number; profile: TlsProfile };
  /** Connections from there begin with a PROXY protocol header, on every port. */
  trustedProxies?: BlockList;
  timeouts?: Timeouts;
  /** How long to wait for the first routes before listening without any. */
  routesDeadlineMs?: number;
  log: Logger;
};

export type Router = {
  readonly httpPort: number;
  /** What it has taken in. */
  readonly knowledge: Knowledge;
  readonly httpsPort: number | undefined;
  status(): Status;
  /** Stops listening, answers what is under way, cuts what is left after `drainMs`. */
  stop(options: { drainMs: number }): Promise<void>;
};

/** Resolves when requests can be answered: with routes and their backends, if they can be had in time. */
export async function startRouter(options: RouterOptions): Promise<Router> {
  const { log, host = '0.0.0.0', timeouts = defaultTimeouts } = options;
  const counters: Counters = {
    requests: 0,
    upgrades: 0,
    tcpConnections: 0,
    dialFailures: 0,
    retries: 0,
    clientsGone: 0,
    refusals: {},
  };
  let table: RouteTable | undefined;
  let routes: readonly Route[] = [];
  const accept = options.trustedProxies === undefined ? acceptPlain : acceptProxied(options.trustedProxies);
  const knowledge = new Knowledge();
  const backends = new Backends({ discovery: knowledge.noting(options.discovery), log });
  const tcp = new TcpRoutes({ backends, accept, counters, dialMs: timeouts.dialMs, host, log });
  const proxy = new Proxy({ table: () => table, backends, counters, timeouts, log });
  const challenges = new Challenges();
  const policy = answeringChallenges(proxy, challenges);
  const front = options.driver === 'http-proxy' ? new ReferenceFront({ policy, log }) : new Http1Front({ policy });
  const http = new HttpListener(front, accept);
  const tls =
    options.tls === undefined
      ? undefined
      : await TlsPort.create({ ...options.tls, host, accept, challenges, fronts: { 'http/1.1': front }, log });
  const tasks = new TaskGroup();
  let isListening = false;

  const onRoutes = (next: Route[]) => {
    routes = next;
    // First the backends: a route in the table whose service is not watched would be refused.
    backends.watch(new Set(next.map((route) => route.service)));
    table = buildTable(next);
    if (isListening) tcp.listen(routes);
  };
  const sink = everySink([new RouteList(onRoutes), knowledge]);
  tasks.run('routes', (signal) => followRoutes({ controller: options.controller, sink, signal, log }));
  if (tls !== undefined) tasks.run('certificates', (signal) => tls.follow(options.controller, signal));

  try {
    await waitFor(() => table, {
      what: 'the routes',
      deadlineMs: options.routesDeadlineMs ?? 10_000,
      signal: tasks.signal,
    });
  } catch (error) {
    log.warn({ err: error }, 'starting without routes: every request is refused until the controller tells them');
  }
  await raceAbort(backends.opened(), tasks.signal);
  const httpPort = await http.listen({ host, port: options.httpPort });
  const httpsPort = await tls?.listen({ deadlineMs: options.routesDeadlineMs ?? 10_000, signal: tasks.signal });
  isListening = true;
  if (table !== undefined) tcp.listen(routes);

  return {
    httpPort,
    knowledge,
    httpsPort,
    status: () => ({
      hasRoutes: table !== undefined,
      routes: {
        http: routes.filter((route) => route.type === 'http').length,
        tcp: routes.filter((route) => route.type === 'tcp').length,
      },
      backends: backends
        .list()
        .map(({ service, address, inFlight, isLeaving }) => ({ service, address, inFlight, isLeaving })),
      ...(tls === undefined ? {} : { tls: tls.status() }),
      counters,
    }),
    async stop({ drainMs }) {
      isListening = false;
      const startedMs = performance.now();
      tcp.stopListening();
      tls?.stopListening();
      // Routes and backends stay live while requests are still being answered.
      await http.stop({ drainMs });
      const leftMs = drainMs - (performance.now() - startedMs);
      if (leftMs > 0 && tcp.connections > 0) {
        await waitFor(() => tcp.connections === 0, { what: 'TCP connections to end', deadlineMs: leftMs }).catch(() => {
          log.info({ connections: tcp.connections }, 'cutting TCP connections that did not end in time');
        });
      }
      await tcp[Symbol.asyncDispose]();
      await tls?.[Symbol.asyncDispose]();
      await tasks.stop();
      backends[Symbol.dispose]();
    },
  };
}
