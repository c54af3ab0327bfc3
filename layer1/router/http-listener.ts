/** The public port: accepts connections, and lets go of them without losing a request. */
import { createServer } from 'node:net';
import type { Server } from 'node:net';
import { listenOn } from '@flynn/kit/listening';
import type { Logger } from '@flynn/kit/log';
import { Arrivals, stopAccepting } from './closing.ts';
import type { Front } from './exchange.ts';
import type { Accept } from './proxy-protocol/acceptance.ts';

export class HttpListener {
  readonly #server: Server;
  readonly #arrivals = new Arrivals();
  readonly #log: Logger;

  constructor(front: Pick<Front, 'take'>, accept: Accept, log: Logger) {
    this.#log = log;
    this.#server = createServer({ allowHalfOpen: true, noDelay: true });
    this.#server.on('connection', (socket) => {
      let isTaken = false;
      accept(socket, false, (client, early) => {
        isTaken = true;
        this.#arrivals.delete(socket);
        // Nothing is told before the front listens: it takes a socket that flows.
        if (socket.isPaused()) socket.resume();
        front.take(socket, client, early);
      });
      if (!isTaken && !socket.destroyed) this.#arrivals.add(socket);
    });
  }

  /** A new router serves beside the one it replaces. Resolves with the port. */
  async listen(options: { host: string; port: number }): Promise<number> {
    return listenOn(this.#server, { name: 'router', at: { ...options, reusePort: true }, log: this.#log });
  }

  /** Accepts no more. Connections that were accepted go on. */
  async stopListening(): Promise<void> {
    await stopAccepting(this.#server);
  }

  /** Resolves when the front has all that were accepted, at the deadline at the latest. */
  async settled(options: { deadlineMs: number }): Promise<void> {
    await this.#arrivals.settled(options);
  }
}
