/** The router: its parts put together, and their common start and stop. */
import { performance } from 'node:perf_hooks';
import type { DiscoveryClient } from '@flynn/discovery/client';
import type { HttpClient } from '@flynn/kit/http-client';
import { systemClock } from '@flynn/kit/clock';
import type { LiveIdentity } from '@flynn/kit/identity';
import type { Logger } from '@flynn/kit/log';
import { raceAbort, waitFor } from '@flynn/kit/retry';
import { TaskGroup } from '@flynn/kit/tasks';
import type { RouteStats } from '@flynn/controller/routes/stats';
import type { Counters, Status } from './api.ts';
import { Backends } from './backends.ts';
import { drainLookMs } from './closing.ts';
import type { Driver } from './config.ts';
import type { Timeouts } from './exchange.ts';
import { everySink, followRoutes } from './feed.ts';
import { HttpListener } from './http-listener.ts';
import { Http1Front, shared } from './http1/front.ts';
import { Http2Front } from './http2/front.ts';
import { Knowledge } from './knowledge.ts';
import { AccessLog } from './policy/access-log.ts';
import type { AccessLogFormat, LogStream } from './policy/access-log.ts';
import { Cookies } from './policy/cookies.ts';
import { Networks } from './policy/networks.ts';
import { Passwords } from './policy/passwords.ts';
import { RouterPolicy } from './policy/policy.ts';
import { RequestIds } from './policy/request-ids.ts';
import { RouteBook } from './policy/route-book.ts';
import { statsByApp, statsOf, statsOfAll } from './policy/stats.ts';
import { acceptPlain, acceptProxied } from './proxy-protocol/acceptance.ts';
import { ReferenceFront } from './reference/front.ts';
import type { RememberedTable } from './remembered.ts';
import type { Told } from './server.ts';
import { Silence } from './silence.ts';
import { TcpRoutes } from './tcp/routes.ts';
import type { TcpWait } from './tcp/routes.ts';
import { unansweredInKernel } from './tcp-table.ts';
import type { Unanswered } from './tcp-table.ts';
import { Challenges, answeringChallenges } from './tls/challenges.ts';
import type { TlsProfile } from './tls/profile.ts';
import { TlsPort } from './tls/port.ts';
import type { RememberedCertificates } from './tls/remembered.ts';

export const defaultTimeouts: Timeouts = { dialMs: 1_000, firstByteMs: 30_000, idleMs: 55_000 };

const defaultTcpWait: TcpWait = { ms: 30_000, most: 1_000 };

export type RouterOptions = {
  controller: Pick<HttpClient, 'events'>;
  discovery: Pick<DiscoveryClient, 'openServiceSet'>;
  /** Who the router is to the platform's own parts, which it passes requests on to over TLS. Without, all goes in clear. */
  identity?: LiveIdentity | undefined;
  host?: string;
  httpPort: number;
  /** Who speaks HTTP/1: the router's own front, or the one on node:http. */
  driver?: Driver;
  /** Without it there is no listening for TLS. */
  tls?: { port: number; profile: TlsProfile; remembered?: RememberedCertificates };
  /** The key of the cookies is made of it: the same for all routers. */
  clusterKey: string;
  /** Addresses and networks whose word on where a request is from is taken. */
  trustedProxies?: readonly string[];
  /** Connections from there begin with a PROXY protocol header, on every port. */
  proxyProtocol?: boolean;
  accessLog?: AccessLogFormat;
  /** Of the access log. Default standard output. */
  output?: LogStream | undefined;
  /** The part of all requests that comes to this process: limits of all together are that much lower. Default 1. */
  share?: number;
  timeouts?: Timeouts;
  /** How long a connection of a TCP route waits for a backend while there is none, and how many do. */
  tcpWait?: TcpWait;
  /** How long to wait for the first routes before listening without any. */
  routesDeadlineMs?: number;
  /** What was last known, until the controller and discovery have spoken. */
  remembered?: RememberedTable;
  /** Which of these addresses' kernels do not answer any more. Default: as the kernel here says. */
  unanswered?: Unanswered;
  log: Logger;
};

export type Counted = { status: Status; stats: RouteStats[] };

export type Router = Told & {
  readonly httpPort: number;
  readonly httpsPort: number | undefined;
  /** The part of all requests that comes to this process from now on. */
  takeShare(share: number): void;
  /** Has clients connect anew as they ask, to come to others too that share the port; HTTP/2 sessions and tunnels stay. */
  shareOut(): void;
  /** Whether nothing is under way: no request that a backend has, no connection of a TCP route. */
  readonly isIdle: boolean;
  /**
   * Stops listening, answers what is under way, cuts what is left after `drainMs`; asked again, the nearer end counts. Connections
   * that have rested for `restMs` are let go of. Resolves with all that was counted.
   */
  stop(options: { drainMs: number; restMs?: number }): Promise<Counted>;
};

/** Resolves when requests can be answered: with routes and their backends, if they can be had in time. */
export async function startRouter(options: RouterOptions): Promise<Router> {
  const { log, host = '0.0.0.0', timeouts = defaultTimeouts, remembered, unanswered = unansweredInKernel } = options;
  const counters: Counters = {
    requests: 0,
    upgrades: 0,
    tcpConnections: 0,
    dialFailures: 0,
    retries: 0,
    clientsGone: 0,
    refusals: {},
  };
  let httpsPort: number | undefined;
  const knowledge = new Knowledge((service, id) => backends.isAnswering(service, id));
  const backends = new Backends({
    discovery: knowledge.noting(remembered?.filling(options.discovery) ?? options.discovery),
    identity: options.identity,
    onRest: () => knowledge.rested(),
    log,
  });
  const trusted = new Networks(options.trustedProxies ?? []);
  const backendSide = shared();
  const { deadlines } = backendSide;
  const accept = options.proxyProtocol === true ? acceptProxied(trusted, deadlines) : acceptPlain;
  const routes = new RouteBook({ backends, defaults: timeouts, now: Date.now, log, share: options.share });
  const figuresOf = (id: string) => routes.tcp.get(id)?.figures;
  const { dialMs } = timeouts;
  const { tcpWait: wait = defaultTcpWait } = options;
  const tcp = new TcpRoutes({ backends, figuresOf, accept, counters, dialMs, wait, deadlines, host, log });
  const { accessLog: format = 'off', output: stream = process.stdout } = options;
  const accessLog = format === 'off' ? undefined : new AccessLog({ format, stream });
  const challenges = new Challenges();
  const requestIds = new RequestIds();
  const routed = new RouterPolicy({
    routes,
    cookies: new Cookies(options.clusterKey),
    passwords: new Passwords({ elapsed: () => performance.now() }),
    trusted,
    httpsPort: () => httpsPort ?? 443,
    counters,
    accessLog,
    log,
    now: Date.now,
    elapsed: () => performance.now(),
    random: Math.random,
    newId: () => requestIds.next(),
  });
  const policy = answeringChallenges(routed, challenges);
  const http2 = new Http2Front({ policy, shared: backendSide, log });
  const http1 =
    options.driver === 'http-proxy'
      ? new ReferenceFront({ policy, log })
      : new Http1Front({ policy, shared: backendSide, http2 });
  const http = new HttpListener(http1, accept, log);
  const fronts = { h2: http2, 'http/1.1': http1 };
  const tls =
    options.tls === undefined
      ? undefined
      : await TlsPort.create({ ...options.tls, host, accept, challenges, fronts, deadlines, log });
  const tasks = new TaskGroup();
  let isListening = false;
  let endMs = Infinity;
  let restMs: number | undefined;
  let stopped: Promise<Counted> | undefined;

  const statusNow = (): Status => ({
    hasRoutes: routes.isKnown,
    routes: { http: routes.size - routes.tcp.size, tcp: routes.tcp.size },
    backends: Array.from(backends.all(), ({ service, address, inFlight, isLeaving, health }) => {
      return { service, address, inFlight, isLeaving, isEjected: health.isEjected };
    }),
    ...(tls === undefined ? {} : { tls: tls.status() }),
    counters,
    ...(remembered?.inUse === undefined ? {} : { remembered: remembered.inUse }),
  });
  const statsNow = (appId?: string) => statsOfAll(routes.counted(), appId);
  const leftMs = () => Math.max(0, endMs - performance.now());
  const drain = async () => {
    const deadlineMs = leftMs();
    const rest = restMs === undefined ? {} : { restMs };
    await Promise.all([http1.drain({ deadlineMs, ...rest }), http2.drain({ deadlineMs })]);
  };
  const stop = async () => {
    isListening = false;
    await Promise.all([tcp.stopListening(), tls?.stopListening(), http.stopListening()]);
    // Routes and backends stay live while requests are still being answered.
    const deadlineMs = leftMs();
    await Promise.all([drain(), http.settled({ deadlineMs }), tls?.settled({ deadlineMs })]);
    // Those whose handshake was under way have come to a front meanwhile, perhaps behind the back of its first draining.
    await drain();
    backendSide.h2c[Symbol.dispose]();
    while (tcp.connections > 0 && leftMs() > 0) await systemClock.sleep(drainLookMs(leftMs()));
    if (tcp.connections > 0) {
      log.info({ connections: tcp.connections }, 'cutting TCP connections that did not end in time');
    }
    await tcp[Symbol.asyncDispose]();
    // What is told of backends goes with them.
    const counted = { status: statusNow(), stats: statsNow() };
    await tls?.[Symbol.asyncDispose]();
    await tasks.stop();
    backends[Symbol.dispose]();
    accessLog?.[Symbol.dispose]();
    return counted;
  };

  const listenForTcp = () => {
    if (isListening && routes.isKnown) tcp.listen(Array.from(routes.tcp.values(), ({ route }) => route));
  };
  const sink = everySink([
    routes,
    { replace: listenForTcp, set: listenForTcp, remove: listenForTcp },
    knowledge,
    ...(remembered === undefined ? [] : [remembered]),
  ]);
  if (remembered?.routes !== undefined) sink.replace(remembered.routes);
  let isLive = false;
  const onCurrent = (revision: () => string | undefined) => {
    isLive = true;
    remembered?.live(revision);
  };
  tasks.run('routes', (signal) =>
    followRoutes({
      controller: options.controller,
      sink,
      known: (id) => routes.told(id),
      revision: remembered?.revision,
      onCurrent,
      signal,
      log,
    }),
  );
  const silence = new Silence({ backends, unanswered, clock: systemClock, log });
  tasks.run('silence', (signal) => silence.run(signal));
  if (remembered !== undefined) tasks.run('remembering', (signal) => remembered.run(signal));
  if (tls !== undefined) tasks.run('certificates', (signal) => tls.follow(options.controller, signal));

  try {
    await waitFor(() => isLive, {
      what: 'the routes',
      deadlineMs: options.routesDeadlineMs ?? (routes.isKnown ? 1_000 : 10_000),
      signal: tasks.signal,
    });
  } catch (error) {
    const what = routes.isKnown
      ? 'starting with the last known routes until the controller tells them'
      : 'starting without routes: every request is refused until the controller tells them';
    log.warn({ err: error, savedAt: remembered?.inUse?.savedAt }, what);
  }
  await raceAbort(backends.opened(), tasks.signal);
  const httpPort = await http.listen({ host, port: options.httpPort });
  httpsPort = await tls?.listen({ deadlineMs: options.routesDeadlineMs ?? 10_000, signal: tasks.signal });
  isListening = true;
  listenForTcp();

  return {
    httpPort,
    knowledge,
    httpsPort,
    status: statusNow,
    routeStats(id) {
      const route = routes.get(id);
      return route === undefined ? undefined : statsOf(route);
    },
    allStats: statsNow,
    appCounts: (also) => ({
      apps: statsByApp(routes.counted()),
      unknown: also.filter((id) => routes.get(id) === undefined),
    }),
    takeShare: (share) => routes.takeShare(share),
    shareOut: () => http1.shareOut(),
    get isIdle() {
      return tcp.connections === 0 && Array.from(backends.all()).every(({ inFlight }) => inFlight === 0);
    },
    stop(stopping) {
      endMs = Math.min(endMs, performance.now() + stopping.drainMs);
      restMs = stopping.restMs;
      // What was being waited for for longer is cut by then.
      if (stopped !== undefined) void drain();
      return (stopped ??= stop());
    },
  };
}
