/** What is in the body of a request, taken out of its frame: for backends that frame bodies otherwise. */
import type { BodyLength, Fields } from '../exchange.ts';
import { ChunkedBody } from './chunked.ts';
import { HeadFields } from './fields.ts';

export class RequestPayload {
  readonly #chunks: ChunkedBody | undefined;
  #left: number;
  #bytes = 0;

  constructor(length: BodyLength) {
    this.#chunks = length === 'until-end' ? new ChunkedBody() : undefined;
    this.#left = typeof length === 'number' ? length : 0;
  }

  /** Gives on what is in the body, and answers up to where it took something. */
  take(buffer: Buffer, from: number, to: number, give: (bytes: Buffer) => void): number {
    const chunks = this.#chunks;
    if (chunks === undefined) {
      const until = Math.min(to, from + this.#left);
      this.#left -= until - from;
      this.#bytes += until - from;
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

  get bytes(): number {
    return this.#chunks === undefined ? this.#bytes : this.#chunks.payloadBytes;
  }

  /** Once it is done. */
  get trailers(): Fields {
    const tail = this.#chunks?.tail ?? '';
    if (tail === '') return [];
    const fields = new HeadFields();
    fields.read(tail, 0);
    return fields.names.flatMap((name, i) => [name, fields.value(i)]);
  }
}
