/** How much may come in from everybody? So often from one address, and so many at once: of each, and of all. */
import { FlynnError } from '@flynn/kit/errors';
import { RateLimit } from '../../access/rate-limit.ts';
import type { RateSettings } from '../../access/rate-limit.ts';

/** A push to a repository that hundreds of apps follow stays below. */
const rate: RateSettings = { burst: 500, perSecond: 20 };
/** Each keeps half a megabyte at the most. */
const places = 64;
/** Whoever sends slowly keeps its places for long: the others have theirs. */
const placesOfOne = 16;

type Settings = { rate: RateSettings; places: number; placesOfOne: number };

export class HookDoor {
  readonly #limit: RateLimit;
  readonly #settings: Settings;
  readonly #inside = new Map<string, number>();
  #all = 0;

  constructor(now: () => number, settings: Settings = { rate, places, placesOfOne }) {
    this.#limit = new RateLimit(settings.rate, now);
    this.#settings = settings;
  }

  /** Throws `exhausted`: whether there is such a hook makes no difference to it. */
  async pass<T>(address: string, task: () => Promise<T>): Promise<T> {
    this.#limit.takeFor(address, address);
    const ofOne = this.#inside.get(address) ?? 0;
    if (this.#all >= this.#settings.places || ofOne >= this.#settings.placesOfOne) {
      throw new FlynnError('exhausted', 'too many hooks come in at once: send it again in a moment', {
        detail: { retryAfterMs: 1_000 },
      });
    }
    this.#count(address, 1);
    try {
      return await task();
    } finally {
      this.#count(address, -1);
    }
  }

  #count(address: string, by: 1 | -1): void {
    this.#all += by;
    const ofOne = (this.#inside.get(address) ?? 0) + by;
    if (ofOne === 0) this.#inside.delete(address);
    else this.#inside.set(address, ofOne);
  }
}
