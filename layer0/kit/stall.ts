/** A deadline that every step moves on: of what may take as long as it gets on. */
import { FlynnError } from './errors.ts';

const usualQuietMs = 10 * 60_000;
/** Who has all of it writes it to a slow disk, sends it to another or to a bucket far away, and says nothing meanwhile. */
const slowestBytesPerSecond = 1024 ** 2;

export class Stall implements Disposable {
  /** Aborts with `timeout` once nothing has got on for so long, or with the signal it was given. */
  readonly signal: AbortSignal;
  readonly #stalled = new AbortController();
  readonly #what: string;
  readonly #quietMs: number;
  #timer: NodeJS.Timeout;
  #isOver = false;

  constructor({
    what,
    signal,
    quietMs = usualQuietMs,
  }: {
    what: string;
    signal?: AbortSignal | undefined;
    quietMs?: number | undefined;
  }) {
    this.#what = what;
    this.#quietMs = quietMs;
    this.signal = signal === undefined ? this.#stalled.signal : AbortSignal.any([signal, this.#stalled.signal]);
    this.#timer = this.#start(quietMs);
  }

  progressed(): void {
    this.#within(this.#quietMs);
  }

  /** Nothing is seen of it from now on: whoever took so many bytes has a second for each MiB of them, and as long as ever. */
  handedOver(bytes: number): void {
    this.#within(this.#quietMs + Math.ceil((bytes / slowestBytesPerSecond) * 1_000));
  }

  /** The same bytes. Each that is taken is a step; at their end they are handed over. */
  async *watched(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    let bytes = 0;
    for await (const chunk of source) {
      bytes += chunk.length;
      this.progressed();
      yield chunk;
    }
    this.handedOver(bytes);
  }

  [Symbol.dispose](): void {
    this.#isOver = true;
    clearTimeout(this.#timer);
  }

  #within(ms: number): void {
    clearTimeout(this.#timer);
    if (!this.#isOver && !this.#stalled.signal.aborted) this.#timer = this.#start(ms);
  }

  #start(ms: number): NodeJS.Timeout {
    return setTimeout(() => {
      this.#stalled.abort(new FlynnError('timeout', `${this.#what} did not get on for ${ms / 1_000} s`));
    }, ms);
  }
}
