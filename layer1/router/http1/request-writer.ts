/** The bytes of a request on their way to a backend. */
import type { Outbox } from './outbox.ts';

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
  write(outbox: Outbox, buffer: Buffer, from: number, to: number): void {
    const head = this.#head;
    this.#head = undefined;
    const part = from === 0 && to === buffer.length ? buffer : buffer.subarray(from, to);
    if (head === undefined) outbox.writeNow(part);
    else if (part.length <= copyBytes) {
      const out = Buffer.allocUnsafe(head.length + part.length);
      out.write(head, 'latin1');
      part.copy(out, head.length);
      outbox.write(out);
    } else outbox.writeTogether(head, part);
  }

  writeText(outbox: Outbox, text: string): void {
    outbox.write(`${this.#head ?? ''}${text}`);
    this.#head = undefined;
  }
}
