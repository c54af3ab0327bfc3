import { Agent } from 'node:http';
import type { Socket } from 'node:net';

/** Hands out the connection that was made before. */
export class OneConnection extends Agent {
  readonly #socket: Socket;

  constructor(socket: Socket) {
    super({ keepAlive: false });
    this.#socket = socket;
  }

  override createConnection(): Socket {
    return this.#socket;
  }
}
