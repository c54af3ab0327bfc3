/** The public port: accepts connections, and lets go of them without losing a request. */
import { createServer } from 'node:http';
import type { Server } from 'node:http';
import { Server as NetServer } from 'node:net';
import type { Socket } from 'node:net';
import { FlynnError, asFlynnError } from '@flynn/kit/errors';
import { systemClock } from '@flynn/kit/clock';
import type { Logger } from '@flynn/kit/log';
import type { Proxy } from './proxy.ts';

/** Clients that keep a connection get this long to hear of its end with an answer, instead of finding it closed. */
const goodbyeMs = 3_000;

export class HttpListener implements AsyncDisposable {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #isStopping = false;

  constructor(proxy: Pick<Proxy, 'handle' | 'handleUpgrade'>, log: Logger) {
    this.#server = createServer({
      // Uploads last as long as they move; a slow head is cut after headersTimeout.
      requestTimeout: 0,
      headersTimeout: 60_000,
      // Longer than the usual 60 s of a load balancer in front, so that it is the one that closes.
      keepAliveTimeout: 75_000,
      maxHeaderSize: 64 * 1024,
      noDelay: true,
      requireHostHeader: false,
      // Asking for HTTP/2 this way is obsolete, and may be answered over HTTP/1.1 (RFC 9110 7.8, RFC 9113 3.1).
      shouldUpgradeCallback: ({ method, headers }) => method === 'GET' && !/\bh2c\b/i.test(headers.upgrade ?? 'h2c'),
    });
    this.#server.on('connection', (socket) => {
      this.#sockets.add(socket);
      socket.once('close', () => this.#sockets.delete(socket));
    });
    for (const [event, expectsContinue] of [
      ['request', false],
      ['checkContinue', true],
    ] as const) {
      this.#server.on(event, (request, response) => {
        if (this.#isStopping) response.shouldKeepAlive = false;
        proxy.handle(request, response, expectsContinue).catch((error: unknown) => {
          log.error({ err: error }, 'a request failed in the router itself');
          response.destroy();
        });
      });
    }
    this.#server.on('upgrade', (request, socket, head) => {
      proxy.handleUpgrade(request, socket, head).catch((error: unknown) => {
        log.error({ err: error }, 'an upgrade failed in the router itself');
        socket.destroy();
      });
    });
  }

  /** With `reusePort`, a new router serves beside the one it replaces. Resolves with the port. */
  async listen(options: { host: string; port: number }): Promise<number> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const where = `port ${options.port} of ${options.host}`;
    this.#server.once('error', (error: NodeJS.ErrnoException) => {
      const isTaken = error.code === 'EADDRINUSE';
      reject(
        isTaken ? new FlynnError('conflict', `the router cannot listen on ${where}: it is taken`) : asFlynnError(error),
      );
    });
    this.#server.listen({ ...options, reusePort: true }, resolve);
    await promise;
    this.#server.removeAllListeners('error');
    const address = this.#server.address();
    return typeof address === 'object' && address !== null ? address.port : options.port;
  }

  /** A connection that came in elsewhere. */
  take(socket: Socket): void {
    this.#server.emit('connection', socket);
  }

  get connections(): number {
    return this.#sockets.size;
  }

  /**
   * Stops accepting; every answer from now on ends its connection. Idle connections get a moment in which a request
   * already on its way is still answered. Resolves when all connections are closed, or cut at the deadline.
   */
  async stop(options: { drainMs: number }): Promise<void> {
    this.#isStopping = true;
    // Not http.Server's own close, which also closes idle connections at once.
    if (this.#server.listening) NetServer.prototype.close.call(this.#server);
    const startedMs = performance.now();
    const elapsedMs = () => performance.now() - startedMs;
    while (this.#sockets.size > 0 && elapsedMs() < options.drainMs) {
      if (elapsedMs() > Math.min(goodbyeMs, options.drainMs / 2)) this.#server.closeIdleConnections();
      await systemClock.sleep(50);
    }
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop({ drainMs: 0 });
  }
}
