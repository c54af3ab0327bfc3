/** TCP routes: one listener for each port, every connection piped to a backend. */
import { createServer } from 'node:net';
import type { Server, Socket } from 'node:net';
import type { Route } from '@flynn/controller/model';
import { messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import type { Counters } from './api.ts';
import { dial } from './backend.ts';
import type { Backend } from './backend.ts';
import type { Backends } from './backends.ts';
import { pickBackend } from './balance.ts';

const maxDials = 4;
const retryListenMs = 5_000;

type Listener = { route: Route; server: Server; retry?: NodeJS.Timeout };

/**
 * INVARIANTS. There is a listener for exactly the ports of the routes. A route that goes takes its listener with it, not
 * the connections: they end when their ends do. One side ending its half leaves the other half open.
 */
export class TcpRoutes implements AsyncDisposable {
  readonly #options: { backends: Pick<Backends, 'of'>; counters: Counters; dialMs: number; host: string; log: Logger };
  readonly #listeners = new Map<number, Listener>();
  readonly #connections = new Set<Socket>();

  constructor(options: {
    backends: Pick<Backends, 'of'>;
    counters: Counters;
    dialMs: number;
    host: string;
    log: Logger;
  }) {
    this.#options = options;
  }

  listen(routes: ReadonlyMap<number, Route>): void {
    for (const [port, listener] of this.#listeners) if (!routes.has(port)) this.#stopListening(port, listener);
    for (const [port, route] of routes) {
      const listener = this.#listeners.get(port);
      if (listener === undefined) this.#start(port, route);
      else listener.route = route;
    }
  }

  get connections(): number {
    return this.#connections.size;
  }

  stopListening(): void {
    this.listen(new Map());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.stopListening();
    for (const socket of this.#connections) socket.destroy();
  }

  #stopListening(port: number, listener: Listener): void {
    this.#listeners.delete(port);
    clearTimeout(listener.retry);
    listener.server.close();
  }

  #start(port: number, route: Route): void {
    const { host, log } = this.#options;
    const server = createServer({ allowHalfOpen: true, keepAlive: true, noDelay: true, pauseOnConnect: true });
    const listener: Listener = { route, server };
    this.#listeners.set(port, listener);
    const listen = () => void server.listen({ port, host, reusePort: true });
    server.on('error', (error) => {
      // Something else on this host may have the port now, and let go of it.
      log.error({ err: error, port }, `cannot listen on port ${port} for a TCP route: ${messageOf(error)}`);
      listener.retry = setTimeout(listen, retryListenMs);
    });
    server.on('connection', (socket) => {
      this.#connections.add(socket);
      socket.once('close', () => this.#connections.delete(socket));
      socket.on('error', (error) => log.debug({ err: error, port }, 'a TCP client broke off'));
      void this.#connect(socket, listener.route);
    });
    listen();
  }

  async #connect(client: Socket, route: Route): Promise<void> {
    const { backends, counters, dialMs, log } = this.#options;
    counters.tcpConnections += 1;
    const tried = new Set<Backend>();
    while (tried.size < maxDials && !client.destroyed) {
      const candidates = await backends.of(route.service);
      const backend = pickBackend(candidates, { nowMs: Date.now(), random: Math.random, tried });
      if (backend === undefined) break;
      tried.add(backend);
      const release = backend.use();
      try {
        join(client, await dial(backend, { timeoutMs: dialMs }), release);
        return;
      } catch (error) {
        release();
        backend.avoid(Date.now());
        counters.dialFailures += 1;
        log.warn({ address: backend.address, port: route.port, reason: messageOf(error) }, 'cannot reach a backend');
      }
    }
    client.destroy();
  }
}

function join(client: Socket, backend: Socket, release: () => void): void {
  backend.setKeepAlive(true, 30_000);
  // What did not end well is reset: an orderly end would make half of something look like all of it.
  const areBothThrough = () => client.readableEnded && backend.readableEnded;
  client.once('close', (hadError) => {
    release();
    if (hadError || !areBothThrough()) backend.resetAndDestroy();
  });
  backend.once('close', (hadError) => {
    if (hadError || !areBothThrough()) client.resetAndDestroy();
  });
  // `close` follows and does the cleaning up.
  backend.on('error', () => {});
  if (client.destroyed) {
    release();
    backend.destroy();
    return;
  }
  client.pipe(backend);
  backend.pipe(client);
}
