/** When have changes come to rest? */
import type { Clock } from '@flynn/kit/clock';

/** Quiet for `minMs` after the last change, but never later than `maxMs` after the first: a steady trickle is no excuse. */
export class QuietPeriod {
  readonly #minMs: number;
  readonly #maxMs: number;
  readonly #clock: Clock;
  #first: number | undefined;
  #last = 0;
  #wake: (() => void) | undefined;

  constructor(options: { minMs: number; maxMs: number; clock: Clock }) {
    this.#minMs = options.minMs;
    this.#maxMs = Math.max(options.minMs, options.maxMs);
    this.#clock = options.clock;
  }

  /** Something changed. */
  touch(): void {
    this.#last = this.#clock.now();
    this.#first ??= this.#last;
    this.#wake?.();
  }

  /** Due without waiting. */
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

  async #sleep(ms: number, signal: AbortSignal): Promise<void> {
    try {
      await this.#clock.sleep(ms, { signal });
    } catch (error) {
      // Woken by the signal, which the loop looks at next.
      if (!signal.aborted) throw error;
    }
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
