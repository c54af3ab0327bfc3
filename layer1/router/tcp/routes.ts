/** TCP routes: one listener for each port, every connection carried to a backend of the route it means. */
import { createServer } from 'node:net';
import type { Server, Socket } from 'node:net';
import type { Route } from '@flynn/controller/model';
import { messageOf } from '@flynn/kit/errors';
import { listenOn } from '@flynn/kit/listening';
import type { Logger } from '@flynn/kit/log';
import type { Counters } from '../api.ts';
import type { Backend } from '../backend.ts';
import { stopAccepting } from '../closing.ts';
import type { Client } from '../exchange.ts';
import type { Deadlines } from '../http1/deadlines.ts';
import type { RouteFigures } from '../policy/figures.ts';
import type { Accept } from '../proxy-protocol/acceptance.ts';
import { proxyHeader } from '../proxy-protocol/header.ts';
import { readClientHello } from '../tls/client-hello.ts';
import type { HelloOutcome } from '../tls/client-hello.ts';
import { lookAtFirstBytes } from '../tls/first-bytes.ts';
import { carry, dialBackend } from './carry.ts';
import { fewestConnections } from './choice.ts';
import { portsOf, routeFor } from './names.ts';
import type { PortRoutes } from './names.ts';
import { Patience } from './patience.ts';

const maxDials = 4;
const retryListenMs = 5_000;
/** To say which name it wants. */
const helloMs = 10_000;

type Listener = { routes: PortRoutes; server: Server; retry?: NodeJS.Timeout };

export type TcpWait = Readonly<{ ms: number; most: number }>;

type TcpOptions = Readonly<{
  backends: {
    of(service: string): Promise<readonly Backend[]>;
    leaderOf(service: string): Backend | undefined;
    changed(service: string): Promise<void> | undefined;
  };
  /** What is counted of a route, as long as there is that route. */
  figuresOf(id: string): RouteFigures | undefined;
  accept: Accept;
  counters: Pick<Counters, 'tcpConnections' | 'dialFailures'>;
  dialMs: number;
  /**
   * For a backend where there is none: one of which there may be only one has no other while it is replaced. With so many
   * connections that wait the next are turned away.
   */
  wait: TcpWait;
  deadlines: Deadlines;
  host: string;
  log: Logger;
}>;

/**
 * A connection for which nobody is there is held for a while: git, databases and the like wait for the other side's word,
 * and do without it badly.
 *
 * INVARIANTS. There is a listener for exactly the ports of the routes. A route that goes takes its listener with it, not
 * the connections: they end when their ends do. Of TLS that is passed on no byte is changed.
 */
export class TcpRoutes implements AsyncDisposable {
  readonly #options: TcpOptions;
  readonly #listeners = new Map<number, Listener>();
  readonly #connections = new Set<Socket>();
  readonly #closing = new Set<Promise<void>>();
  #waiting = 0;

  constructor(options: TcpOptions) {
    this.#options = options;
  }

  /** For these, of whatever type, and no others. */
  listen(all: Iterable<Route>): void {
    const ports = portsOf(all);
    for (const [port, listener] of this.#listeners) if (!ports.has(port)) this.#stopListening(port, listener);
    for (const [port, routes] of ports) {
      const listener = this.#listeners.get(port);
      if (listener === undefined) this.#start(port, routes);
      else listener.routes = routes;
    }
  }

  get connections(): number {
    return this.#connections.size;
  }

  /** Resolves when whoever had already connected was accepted, or went to another router. */
  async stopListening(): Promise<void> {
    this.listen([]);
    await Promise.all(this.#closing);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stopListening();
    for (const socket of this.#connections) socket.destroy();
  }

  #stopListening(port: number, listener: Listener): void {
    this.#listeners.delete(port);
    clearTimeout(listener.retry);
    const closing = stopAccepting(listener.server).finally(() => this.#closing.delete(closing));
    this.#closing.add(closing);
  }

  #start(port: number, routes: PortRoutes): void {
    const { host, log, accept } = this.#options;
    const server = createServer({ allowHalfOpen: true, keepAlive: true, noDelay: true, pauseOnConnect: true });
    const listener: Listener = { routes, server };
    this.#listeners.set(port, listener);
    const listen = async (): Promise<void> => {
      try {
        await listenOn(server, { name: 'router', at: { port, host, reusePort: true }, log });
        // Its route went while it was about to.
        if (this.#listeners.get(port) !== listener) server.close();
      } catch (error) {
        // Something else on this host may have the port now, and let go of it.
        log.error({ err: error, port }, `cannot listen on port ${port} for a TCP route: ${messageOf(error)}`);
        if (this.#listeners.get(port) === listener) listener.retry = setTimeout(() => void listen(), retryListenMs);
      }
    };
    server.on('connection', (socket) => {
      this.#connections.add(socket);
      socket.once('close', () => this.#connections.delete(socket));
      socket.on('error', (error) => log.debug({ err: error, port }, 'a TCP client broke off'));
      accept(socket, false, (client, early) => this.#route(socket, { client, early, routes: listener.routes }));
    });
    void listen();
  }

  #route(
    socket: Socket,
    { client, early, routes }: { client: Client; early?: Buffer | undefined; routes: PortRoutes },
  ) {
    const { whole, byName } = routes;
    if (byName.size === 0) {
      if (whole !== undefined) void this.#connect(socket, { client, route: whole, early });
      return;
    }
    if (early !== undefined) socket.unshift(early);
    lookAtFirstBytes<Exclude<HelloOutcome, 'more'>>(socket, {
      look: readClientHello,
      timeoutMs: helloMs,
      deadlines: this.#options.deadlines,
      done: (hello, bytes) => {
        const route = routeFor(routes, hello === 'none' ? undefined : hello.serverName);
        if (route === undefined) socket.destroy();
        else void this.#connect(socket, { client, route, early: bytes });
      },
    });
  }

  async #connect(socket: Socket, to: { client: Client; route: Route; early: Buffer | undefined }): Promise<void> {
    const { counters, deadlines, dialMs, wait, log } = this.#options;
    const { client, route, early } = to;
    const { proxyProtocol, idleMs } = route.tcp;
    counters.tcpConnections += 1;
    const figures = this.#count(socket, route);
    const tried = new Set<Backend>();
    using patience = new Patience(socket, { waitMs: wait.ms, deadlines });
    while (tried.size < maxDials && !socket.destroyed) {
      const backend = await this.#next(route, tried, patience);
      if (backend === undefined || socket.destroyed) break;
      if (tried.size > 0 && figures !== undefined) figures.retries += 1;
      tried.add(backend);
      const release = backend.use();
      try {
        const connection = await dialBackend(backend, { timeoutMs: dialMs, deadlines });
        const header = proxyProtocol === undefined ? undefined : proxyHeader(proxyProtocol, endsOf(socket, client));
        carry(socket, connection, { first: [header, early], idleMs, release });
        return;
      } catch (error) {
        release();
        backend.avoid(performance.now());
        counters.dialFailures += 1;
        log.warn({ address: backend.address, port: route.port, reason: messageOf(error) }, 'cannot reach a backend');
      }
    }
    if (!socket.destroyed) figures?.refused(tried.size === 0 ? 'no-backends' : 'unreachable');
    socket.destroy();
  }

  /** From when it is known what a connection is for, to its end. */
  #count(socket: Socket, { id }: Route): RouteFigures | undefined {
    const figures = this.#options.figuresOf(id);
    if (figures === undefined) return undefined;
    figures.active += 1;
    socket.once('close', () => {
      figures.active -= 1;
      figures.requests += 1;
      figures.bytesIn += socket.bytesRead;
      figures.bytesOut += socket.bytesWritten;
    });
    return figures;
  }

  /** Waits for one where there is none, or none but those that were tried. */
  async #next(route: Route, tried: ReadonlySet<Backend>, patience: Patience): Promise<Backend | undefined> {
    for (;;) {
      // Asked for before, so that none is missed.
      const changed = this.#options.backends.changed(route.service);
      const backend = await this.#pick(route, tried);
      if (backend !== undefined || changed === undefined || this.#waiting >= this.#options.wait.most) return backend;
      this.#waiting += 1;
      const isChanged = await patience.until(changed).finally(() => (this.#waiting -= 1));
      if (!isChanged) return undefined;
    }
  }

  async #pick({ service, tcp }: Route, tried: ReadonlySet<Backend>): Promise<Backend | undefined> {
    const { backends } = this.#options;
    const candidates = await backends.of(service);
    if (tcp.leader) {
      const leader = backends.leaderOf(service);
      return leader === undefined || tried.has(leader) ? undefined : leader;
    }
    return fewestConnections(candidates, { nowMs: performance.now(), random: Math.random, tried });
  }
}

function endsOf({ localAddress = '0.0.0.0' }: Socket, { address, port, localPort }: Client) {
  const destination = { address: localAddress.replace(/^::ffff:(?=\d)/, ''), port: localPort };
  return { source: { address, port }, destination };
}
