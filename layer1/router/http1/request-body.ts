/** How far does the body of a request reach? */
import type { BodyLength } from '../exchange.ts';
import { ChunkedBody } from './chunked.ts';

export class RequestBody {
  readonly #chunks: ChunkedBody | undefined;
  #left: number;
  #bytes = 0;
  /** Up to where the last `pass` took what belongs to it. */
  taken = 0;

  constructor(length: BodyLength) {
    this.#chunks = length === 'until-end' ? new ChunkedBody() : undefined;
    this.#left = typeof length === 'number' ? length : 0;
  }

  /** Takes what belongs to it, and answers up to where that goes on as it is; then comes `tail`. */
  pass(buffer: Buffer, from: number, to: number): number {
    if (this.#chunks !== undefined) {
      const until = this.#chunks.pass(buffer, from, to);
      this.taken = this.#chunks.taken;
      return until;
    }
    const bytes = Math.min(this.#left, to - from);
    this.#left -= bytes;
    this.#bytes += bytes;
    this.taken = from + bytes;
    return this.taken;
  }

  get isDone(): boolean {
    return this.#chunks === undefined ? this.#left === 0 : this.#chunks.isDone;
  }

  get isBad(): boolean {
    return this.#chunks !== undefined && this.#chunks.isBad;
  }

  /** Of the content, without frames. */
  get bytes(): number {
    return this.#chunks === undefined ? this.#bytes : this.#chunks.payloadBytes;
  }

  get tail(): string {
    return this.#chunks === undefined || !this.#chunks.isDone ? '' : this.#chunks.tail;
  }
}
