/** How far does the body of a request reach, and what is in it? */
import type { BodyLength, Fields } from '../exchange.ts';
import { ChunkedBody } from './chunked.ts';
import { HeadFields } from './fields.ts';

/** All of a body is read in the same way: by `pass`, for readers of the same frame, or by `take`, for those that frame anew. */
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
    this.taken = this.#count(from, to);
    return this.taken;
  }

  /** Gives on what is in it, out of its frame, and answers up to where it took something. */
  take(buffer: Buffer, from: number, to: number, give: (bytes: Buffer) => void): number {
    const chunks = this.#chunks;
    if (chunks === undefined) {
      const until = this.#count(from, to);
      if (until > from) give(buffer.subarray(from, until));
      return until;
    }
    let at = from;
    while (at < to && !chunks.isDone && !chunks.isBad) {
      at = chunks.step(buffer, at, to);
      if (chunks.dataTo > chunks.dataFrom) give(buffer.subarray(chunks.dataFrom, chunks.dataTo));
    }
    return at;
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

  /** What follows the last of what goes on as it is. */
  get tail(): string {
    return this.#chunks === undefined || !this.#chunks.isDone ? '' : this.#chunks.tail;
  }

  /** The fields after it, once it is done. */
  get trailers(): Fields {
    if (this.tail === '') return [];
    const fields = new HeadFields();
    fields.read(this.tail, 0);
    return fields.names.flatMap((name, i) => [name, fields.value(i)]);
  }

  /** Of one whose length is known: up to where it reaches. */
  #count(from: number, to: number): number {
    const bytes = Math.min(this.#left, to - from);
    this.#left -= bytes;
    this.#bytes += bytes;
    return from + bytes;
  }
}
