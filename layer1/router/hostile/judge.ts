/** Other readers of HTTP/1: llhttp itself, and nginx and HAProxy in front of it. What do they make of a message? */
import { createServer } from 'node:http';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { once } from 'node:events';
import { talk } from './talk.ts';

export type Taken = { method: string; body: string };

export type Opinion = {
  requests: readonly Taken[];
  /** An error answer came, or the connection ended without one, or it waits for more. */
  end: 'refused' | 'closed' | 'waiting';
};

/** Who says nothing for `quietMs` waits for more. */
export type Judge = { readonly name: string; read(bytes: string, quietMs: number): Promise<Opinion> };

export function isRefusal(answer: string): boolean {
  return /HTTP\/1\.[01] [45]\d\d /.test(answer);
}

/** Reads what reaches it with llhttp, as strictly as Node does. */
export class LlhttpServer implements AsyncDisposable {
  readonly #server: Server;
  #taken: Taken[] = [];
  #round = 0;

  constructor() {
    this.#server = createServer({ requireHostHeader: false, keepAliveTimeout: 60_000 }, (request, response) => {
      const round = this.#round;
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('error', () => response.destroy());
      request.on('end', () => {
        if (round === this.#round) {
          this.#taken.push({ method: request.method ?? '', body: Buffer.concat(chunks).toString('latin1') });
        }
        response.end('taken');
      });
    });
    this.#server.on('clientError', (_error, socket) =>
      socket.end('HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n'),
    );
  }

  async listen(): Promise<number> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return (this.#server.address() as AddressInfo).port;
  }

  /** Whole requests since the last call; what arrives of older ones later is dropped. */
  take(): Taken[] {
    const taken = this.#taken;
    this.#taken = [];
    this.#round += 1;
    return taken;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

/** Whoever listens on the port and passes on to, or is, that server. One message at a time. */
export function judgeOn(name: string, port: number, take: () => readonly Taken[]): Judge {
  return {
    name,
    async read(bytes, quietMs) {
      take();
      const { answer, isClosed } = await talk(port, [bytes], { quietMs });
      return {
        requests: take(),
        end: isRefusal(answer) ? 'refused' : isClosed ? 'closed' : 'waiting',
      };
    },
  };
}
