/** The bytes of a request on their way to a backend. */
import type { Socket } from 'node:net';

/** Small enough to be copied, so that a head and what follows leave as one piece. */
const copyBytes = 16_384;

/** INVARIANT. A head that is held goes out before anything else, and once. */
export class RequestWriter {
  #head: string | undefined;

  /** Waits for the first of the body, to leave with it. */
  hold(head: string): void {
    this.#head = head;
  }

  get isHolding(): boolean {
    return this.#head !== undefined;
  }

  /** The bytes are the caller's and stay as they are. */
  write(socket: Socket, buffer: Buffer, from: number, to: number): void {
    const head = this.#head;
    this.#head = undefined;
    const part = from === 0 && to === buffer.length ? buffer : buffer.subarray(from, to);
    if (head === undefined) socket.write(part);
    else if (part.length <= copyBytes) {
      const out = Buffer.allocUnsafe(head.length + part.length);
      out.write(head, 'latin1');
      part.copy(out, head.length);
      socket.write(out);
    } else {
      socket.cork();
      socket.write(head, 'latin1');
      socket.write(part);
      socket.uncork();
    }
  }

  writeText(socket: Socket, text: string): void {
    const all = `${this.#head ?? ''}${text}`;
    this.#head = undefined;
    socket.write(all, 'latin1');
  }
}
