/** The public port: accepts connections, and lets go of them without losing a request. */
import { createServer } from 'node:net';
import type { Server } from 'node:net';
import { FlynnError, asFlynnError } from '@flynn/kit/errors';
import { stopAccepting } from './closing.ts';
import type { Front } from './exchange.ts';
import type { Accept } from './proxy-protocol/acceptance.ts';

export class HttpListener implements AsyncDisposable {
  readonly #front: Front;
  readonly #server: Server;

  constructor(front: Front, accept: Accept) {
    this.#front = front;
    this.#server = createServer({ allowHalfOpen: true, noDelay: true });
    this.#server.on('connection', (socket) => {
      accept(socket, false, (client, early) => {
        // Nothing is told before the front listens: it takes a socket that flows.
        if (socket.isPaused()) socket.resume();
        front.take(socket, client, early);
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

  /** Stops accepting, and resolves when all connections are closed, or cut at the deadline. */
  async stop(options: { drainMs: number }): Promise<void> {
    await stopAccepting(this.#server);
    await this.#front.drain({ deadlineMs: options.drainMs });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop({ drainMs: 0 });
  }
}
