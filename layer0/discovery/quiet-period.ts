/** When have changes come to rest? */
import { type Clock, pause } from '@flynn/kit/clock';

/** Quiet for `minMs` after the last change, but never later than `maxMs` after the first: a steady trickle is no excuse. */
export class QuietPeriod {
  readonly #minMs: number;
  readonly #maxMs: number;
  readonly #clock: Clock;
  #first: number | undefined;
  #last = 0;
  #wake: (() => void) | undefined;

  /** `clock`: a steady one. What rests by one that is set back rests for as long. */
  constructor(options: { minMs: number; maxMs: number; clock: Clock }) {
    this.#minMs = options.minMs;
    this.#maxMs = Math.max(options.minMs, options.maxMs);
    this.#clock = options.clock;
  }

  /** Something changed. */
  touch(): void {
    this.#last = this.#clock.now();
    if (this.#first !== undefined) return;
    this.#first = this.#last;
    this.#wake?.();
  }

  /** Due without waiting, and without more of a wait that has begun. */
  hurry(): void {
    this.#first = -Infinity;
    this.#wake?.();
  }

  /** Resolves when there was a change and then rest, and forgets it; also when the signal aborts. */
  async settled(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      if (this.#first === undefined) {
        await this.#nextTouch(signal);
        continue;
      }
      const leftMs = Math.min(this.#last + this.#minMs, this.#first + this.#maxMs) - this.#clock.now();
      if (leftMs <= 0) {
        this.#first = undefined;
        return;
      }
      await this.#sleep(leftMs, signal);
    }
  }

  /** Until something is in a hurry or the signal aborts at the latest, which the loop looks at next. */
  async #sleep(ms: number, signal: AbortSignal): Promise<void> {
    const hurried = new AbortController();
    this.#wake = () => hurried.abort();
    await pause(ms, AbortSignal.any([signal, hurried.signal]), this.#clock);
    this.#wake = undefined;
  }

  #nextTouch(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        this.#wake = undefined;
        signal.removeEventListener('abort', done);
        resolve();
      };
      this.#wake = done;
      signal.addEventListener('abort', done, { once: true });
    });
  }
}
