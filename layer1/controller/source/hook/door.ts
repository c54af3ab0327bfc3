/** How much may come in from everybody? So often from one address, and so many at once. */
import { FlynnError } from '@flynn/kit/errors';
import { RateLimit } from '../../access/rate-limit.ts';
import type { RateSettings } from '../../access/rate-limit.ts';

/** A push to a repository that hundreds of apps follow stays below. */
const rate: RateSettings = { burst: 500, perSecond: 20 };
/** Each keeps half a megabyte at the most. */
const places = 64;

export class HookDoor {
  readonly #limit: RateLimit;
  readonly #places: number;
  #inside = 0;

  constructor(now: () => number, settings: { rate: RateSettings; places: number } = { rate, places }) {
    this.#limit = new RateLimit(settings.rate, now);
    this.#places = settings.places;
  }

  /** Throws `exhausted`: whether there is such a hook makes no difference to it. */
  async pass<T>(address: string, task: () => Promise<T>): Promise<T> {
    this.#limit.takeFor(address, address);
    if (this.#inside >= this.#places) {
      throw new FlynnError('exhausted', 'too many hooks come in at once: send it again in a moment', {
        detail: { retryAfterMs: 1_000 },
      });
    }
    this.#inside += 1;
    try {
      return await task();
    } finally {
      this.#inside -= 1;
    }
  }
}
