/** How often may somebody try to log in? Per address, a few at once and then one now and then; who gets in is not counted. */
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

  /** Throws `exhausted`, with when to come back. */
  take(address: string): void {
    const client = clientOf(address);
    const nowMs = this.#now();
    const restedMs = Math.max(nowMs, this.#restedAt.get(client) ?? 0) + everyMs;
    const retryAfterMs = restedMs - nowMs - burst * everyMs;
    if (retryAfterMs > 0) {
      const message = 'too many logins failed from this address: try again in a moment';
      throw new FlynnError('exhausted', message, { detail: { retryAfterMs } });
    }
    this.#put(client, restedMs);
  }

  giveBack(address: string): void {
    const client = clientOf(address);
    const restedMs = this.#restedAt.get(client);
    if (restedMs !== undefined) this.#put(client, restedMs - everyMs);
  }

  #put(client: string, restedMs: number): void {
    this.#restedAt.delete(client);
    this.#restedAt.set(client, restedMs);
    if (this.#restedAt.size <= maxClients) return;
    for (const oldest of this.#restedAt.keys().take(1)) this.#restedAt.delete(oldest);
  }
}
