/** How busy are all processors of this host, since it was asked before? */
import { readProcessors } from '../usage/figures.ts';

/** What spans less would be noise: then the last share stands. */
const leastSpanMs = 1_000;

type Sample = Readonly<{ atMs: number; busyNanoseconds: number }>;

export class ProcessorUse {
  readonly #read: typeof readProcessors;
  readonly #now: () => number;
  #before: Sample;
  #percent: number | undefined;

  constructor(options: { read?: typeof readProcessors; now?: () => number } = {}) {
    this.#read = options.read ?? readProcessors;
    this.#now = options.now ?? (() => performance.now());
    this.#before = { atMs: this.#now(), busyNanoseconds: this.#read().busyNanoseconds };
  }

  /** 100 is all of them. Undefined within a second of the start. */
  percent(): number | undefined {
    const { busyNanoseconds, cores } = this.#read();
    const atMs = this.#now();
    const spanMs = atMs - this.#before.atMs;
    if (spanMs < leastSpanMs) return this.#percent;
    const share = (busyNanoseconds - this.#before.busyNanoseconds) / (spanMs * 1e6 * Math.max(1, cores));
    this.#before = { atMs, busyNanoseconds };
    this.#percent = Math.round(Math.min(1, Math.max(0, share)) * 1_000) / 10;
    return this.#percent;
  }
}
