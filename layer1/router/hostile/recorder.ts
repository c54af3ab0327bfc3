/** A backend that keeps every byte it gets, reads them strictly, and answers each whole request. */
import type { Socket } from 'node:net';
import { createServer } from 'node:net';
import type { Server } from 'node:net';
import { readRequests } from './wire.ts';
import type { ReadRequest } from './wire.ts';

/** Everything since the last `take`: in the order in which it began to arrive, connection by connection. */
export type Recorded = {
  requests: readonly ReadRequest[];
  /** Of each connection that got anything, as latin1. */
  bytes: readonly string[];
  /** What no strict sender would have sent. */
  problems: readonly string[];
  /** Connections on which a request has begun and not ended. */
  unfinished: number;
};

type Connection = { socket: Socket; bytes: string; answered: number };

export class Recorder {
  readonly server: Server;
  readonly #connections = new Set<Connection>();

  constructor() {
    this.server = createServer({ noDelay: true }, (socket) => {
      const connection: Connection = { socket, bytes: '', answered: 0 };
      this.#connections.add(connection);
      socket.on('error', () => socket.destroy());
      socket.on('data', (chunk) => {
        connection.bytes += chunk.toString('latin1');
        const { requests, problem } = readRequests(connection.bytes);
        for (; connection.answered < requests.length; connection.answered += 1) {
          socket.write(
            `HTTP/1.1 200 OK\r\nContent-Length: ${reached.length}\r\n\r\n${bodyFor(requests[connection.answered])}`,
          );
        }
        if (problem !== undefined) socket.destroy();
      });
      socket.on('close', () => {
        if (connection.bytes === '') this.#connections.delete(connection);
      });
    });
  }

  /** What was recorded, and forgets it; connections stay open, but those on which a request has not ended. */
  take(): Recorded {
    const heard = [...this.#connections].filter(({ bytes }) => bytes !== '');
    const readings = heard.map(({ bytes }) => readRequests(bytes));
    const bytes = heard.map((connection) => connection.bytes);
    for (const connection of this.#connections) {
      // What is still to come of a request that was not whole belongs to nobody after this.
      if (readRequests(connection.bytes).rest !== '') connection.socket.destroy();
      if (connection.socket.destroyed) this.#connections.delete(connection);
      connection.bytes = '';
      connection.answered = 0;
    }
    return {
      requests: readings.flatMap(({ requests }) => requests),
      bytes,
      problems: readings.flatMap(({ problem }) => problem ?? []),
      unfinished: readings.filter(({ rest }) => rest !== '').length,
    };
  }
}

/** What a client finds in its answer when its request got through. */
export const reached = 'reached';

function bodyFor(request: ReadRequest | undefined): string {
  return request?.method === 'HEAD' ? '' : reached;
}
