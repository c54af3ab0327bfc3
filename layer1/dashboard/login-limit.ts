/**
 * How many wrong tokens may somebody show? Per address, a few at once and then one now and then. Whoever has a good one gets in
 * all the same: behind a proxy many people have one address, and none of them can be shut out by another.
 */
import { clientOf } from '@flynn/kit/client-address';
import { FlynnError } from '@flynn/kit/errors';

const burst = 10;
const everyMs = 10_000;
/** More than this many at a time have rested long enough to be forgotten. */
const maxClients = 10_000;

export class LoginLimit {
  readonly #now: () => number;
  /** When a client's tries are all back, by client; the first has rested for longest. */
  readonly #restedAt = new Map<string, number>();

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Counts a token that was wrong. Throws `exhausted` for one too many, with when to come back. */
  countWrong(address: string): void {
    const client = clientOf(address);
    const nowMs = this.#now();
    const restedMs = Math.max(nowMs, this.#restedAt.get(client) ?? 0) + everyMs;
    const retryAfterMs = restedMs - nowMs - burst * everyMs;
    if (retryAfterMs > 0) {
      const message =
        'this token opens nothing, as many before it from this address: look at it, and try again in a moment';
      throw new FlynnError('exhausted', message, { detail: { retryAfterMs } });
    }
    this.#put(client, restedMs);
  }

  #put(client: string, restedMs: number): void {
    this.#restedAt.delete(client);
    this.#restedAt.set(client, restedMs);
    if (this.#restedAt.size <= maxClients) return;
    for (const oldest of this.#restedAt.keys().take(1)) this.#restedAt.delete(oldest);
  }
}
