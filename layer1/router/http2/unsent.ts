/**
 * How much of the answers of one session waits for the client to take it?
 *
 * INVARIANT. While it is much, no more is read from a backend for an answer before all that waits of that answer is out.
 */
import type { ServerHttp2Stream } from 'node:http2';

/** Eight answers of all that lies of one at a time are less: who takes what was asked for never comes to that. */
const muchBytes = 1_048_576;

export class Unsent {
  #bytes = 0;

  get isMuch(): boolean {
    return this.#bytes > muchBytes;
  }

  watch(stream: ServerHttp2Stream): UnsentOfStream {
    return new UnsentOfStream(stream, (bytes) => (this.#bytes += bytes));
  }
}

/** The part of one stream. */
export class UnsentOfStream {
  readonly #stream: ServerHttp2Stream;
  readonly #add: (bytes: number) => void;
  #counted = 0;

  constructor(stream: ServerHttp2Stream, add: (bytes: number) => void) {
    this.#stream = stream;
    this.#add = add;
  }

  /** After each write, each time something is out, and once it is closed. */
  count(): void {
    const unsent = this.#stream.destroyed ? 0 : this.#stream.writableLength;
    this.#add(unsent - this.#counted);
    this.#counted = unsent;
  }
}
