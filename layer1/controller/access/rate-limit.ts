/** How often may somebody ask? A token bucket each: bursts are fine, a loop that never rests is not. */
import { FlynnError } from '@flynn/kit/errors';
import type { Principal } from './principal.ts';

export type RateSettings = Readonly<{
  /** What may be asked at once after a rest. */
  burst: number;
  perSecond: number;
}>;

/** A fleet of scripts stays below; a runaway loop on one token does not take the API from everybody else. */
export const defaultRate: RateSettings = { burst: 2_000, perSecond: 500 };

/** More than this many at a time have rested long enough to be forgotten. */
const maxBuckets = 10_000;

export class RateLimit {
  readonly #settings: RateSettings;
  readonly #now: () => number;
  readonly #buckets = new Map<string, { tokens: number; atMs: number }>();

  constructor(settings: RateSettings, now: () => number) {
    this.#settings = settings;
    this.#now = now;
  }

  /** Throws `exhausted` with when to come back. The platform's own parts are not counted: nobody else would serve apps. */
  take(principal: Principal): void {
    if (principal.kind !== 'service') this.takeFor(principal.id, principal.name);
  }

  /** The same for whoever has this id. */
  takeFor(id: string, name: string): void {
    const { burst, perSecond } = this.#settings;
    const nowMs = this.#now();
    const bucket = this.#buckets.get(id) ?? { tokens: burst, atMs: nowMs };
    // Put at the end: the first of the map is the one that was quiet for longest.
    this.#buckets.delete(id);
    this.#buckets.set(id, bucket);
    bucket.tokens = Math.min(burst, bucket.tokens + (Math.max(0, nowMs - bucket.atMs) * perSecond) / 1_000);
    bucket.atMs = nowMs;
    this.#shrink();
    if (bucket.tokens >= 1) {
      bucket.tokens -= 1;
      return;
    }
    const retryAfterMs = Math.ceil(((1 - bucket.tokens) * 1_000) / perSecond);
    throw new FlynnError(
      'exhausted',
      `${name} asks too often: at most ${perSecond} requests a second, ${burst} at once; try again in a moment`,
      { detail: { retryAfterMs } },
    );
  }

  #shrink(): void {
    if (this.#buckets.size <= maxBuckets) return;
    for (const id of this.#buckets.keys().take(1)) this.#buckets.delete(id);
  }
}
