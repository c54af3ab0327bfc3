/** Tells how far something is, now and then. */
import { hasCode } from '@flynn/kit/errors';

const everyMs = 5_000;

export class Meter {
  readonly #now: () => number;
  readonly #tell: (bytes: number) => Promise<void>;
  #toldMs: number;

  constructor(now: () => number, tell: (bytes: number) => Promise<void>) {
    this.#now = now;
    this.#tell = tell;
    this.#toldMs = now();
  }

  /** Throws what telling throws, but for a store that cannot be reached: it is told again. */
  async count(bytes: number): Promise<void> {
    const nowMs = this.#now();
    if (nowMs - this.#toldMs < everyMs) return;
    this.#toldMs = nowMs;
    try {
      await this.#tell(bytes);
    } catch (error) {
      if (!hasCode(error, 'unavailable', 'timeout')) throw error;
    }
  }
}
