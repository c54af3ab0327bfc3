/** A client that sends as fast as it may, and knows when it may not any more. */
import { connect } from 'node:net';
import type { Socket } from 'node:net';
import { waitFor } from '@flynn/kit/retry';

/** Without a byte taken for so long it counts as held back: far longer than a turn of anybody's loop. */
const stallMs = 1_500;

export class Pusher {
  readonly #socket: Socket;
  readonly #piece: string;
  #movedMs = performance.now();

  constructor(port: number, head: string, piece: string) {
    this.#socket = connect(port, '127.0.0.1');
    this.#piece = piece;
    this.#socket.on('error', () => this.#socket.destroy());
    this.#socket.on('drain', () => this.#push());
    this.#socket.write(head);
    this.#push();
  }

  #push(): void {
    this.#movedMs = performance.now();
    while (this.#socket.write(this.#piece));
  }

  /** With what its own system still holds. */
  get writtenBytes(): number {
    return this.#socket.bytesWritten - this.#socket.writableLength;
  }

  async stalled(): Promise<void> {
    await waitFor(() => performance.now() - this.#movedMs > stallMs, {
      what: 'the client to be held back',
      deadlineMs: 30_000,
    });
  }

  leave(): void {
    this.#socket.destroy();
  }
}
