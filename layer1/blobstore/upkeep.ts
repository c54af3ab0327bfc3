/** Work that is done now and then, and for single blobs at once when somebody asks. */
import { type Clock, pause } from '@flynn/kit/clock';
import { messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';

export type UpkeepOptions = {
  name: string;
  firstMs: number;
  everyMs: number;
  clock: Clock;
  log: Logger;
  /** Answers after how long there is to be another. */
  all: (signal: AbortSignal) => Promise<number>;
  one: (digest: string, signal: AbortSignal) => Promise<void>;
};

/** A round that fails is told in the log and made up for by the next. */
export class Upkeep {
  readonly #options: UpkeepOptions;
  readonly #asked = new Set<string>();
  #wake = Promise.withResolvers<void>();
  #nextMs: number;
  /** From when it was settled until `#nextMs`. */
  #delayMs: number;

  constructor(options: UpkeepOptions) {
    this.#options = options;
    this.#delayMs = options.firstMs;
    this.#nextMs = options.clock.now() + options.firstMs;
  }

  ask(digest: string): void {
    this.#asked.add(digest);
    this.#wake.resolve();
  }

  /** The next round is made at once. */
  hurry(): void {
    this.#nextMs = 0;
    this.#wake.resolve();
  }

  /** A long round calls this between its parts: nobody who asks waits for its end. Who asks meanwhile: the next call. */
  async serveAsked(signal: AbortSignal): Promise<void> {
    const asked = Array.from(this.#asked);
    for (const digest of asked) {
      this.#asked.delete(digest);
      await this.#options.one(digest, signal);
    }
  }

  /** Resolves when the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { name, everyMs, clock, log, all } = this.#options;
    while (!signal.aborted) {
      this.#wake = Promise.withResolvers();
      try {
        await this.serveAsked(signal);
        // A clock that was set back must not hold it up.
        this.#nextMs = Math.min(this.#nextMs, clock.now() + this.#delayMs);
        if (clock.now() >= this.#nextMs) {
          this.#nextMs = Infinity;
          this.#delayMs = await all(signal);
          this.#nextMs = Math.min(this.#nextMs, clock.now() + this.#delayMs);
        }
      } catch (error) {
        if (!signal.aborted) log.warn({ err: error }, `${name} failed, trying again: ${messageOf(error)}`);
        this.#delayMs = everyMs;
        this.#nextMs = Math.min(this.#nextMs, clock.now() + everyMs);
      }
      if (this.#asked.size > 0) continue;
      const waiting = new AbortController();
      const waitMs = Math.min(everyMs, Math.max(0, this.#nextMs - clock.now()));
      await Promise.race([pause(waitMs, AbortSignal.any([signal, waiting.signal]), clock), this.#wake.promise]);
      waiting.abort();
    }
  }
}
