/** The WebSockets of terminals: loaded with what they need once somebody opens the first. */
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { FlynnError } from '@flynn/kit/errors';
import { frameLimitBytes } from '@flynn/kit/frames';
import { WebSocketServer } from 'ws';
import { type TerminalOptions, serveTerminal } from './terminal.ts';
import { type Wanted, wantedOf } from './terminal-query.ts';

export type Upgraded = Readonly<{ request: IncomingMessage; socket: Duplex; head: Buffer }>;

export class Terminals {
  readonly #sockets = new WebSocketServer({
    noServer: true,
    maxPayload: frameLimitBytes,
    perMessageDeflate: false,
    clientTracking: false,
  });

  /** Throws for what was not asked for as it should be; the connection is its caller's to answer then. */
  wanted({ request, socket }: Upgraded): Wanted {
    if (socket.destroyed) throw new FlynnError('cancelled', 'the page went away');
    return wantedOf(request.url ?? '');
  }

  /** Takes the connection over. Resolves when the terminal has ended. */
  async serve({ request, socket, head }: Upgraded, options: TerminalOptions): Promise<void> {
    const ended = Promise.withResolvers<void>();
    // What is no handshake is answered by the socket server itself, and ends.
    socket.once('close', ended.resolve);
    this.#sockets.handleUpgrade(request, socket, head, (page) => {
      serveTerminal(page, options).then(ended.resolve, ended.reject);
    });
    await ended.promise;
  }
}
