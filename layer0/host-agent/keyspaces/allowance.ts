/** How much may one job write? What it writes is in etcd's history for half an hour, beside everything of the cluster. */
import { Refusal } from './refusal.ts';

/** Patroni has some twenty, of a few hundred bytes. */
const maxKeys = 1_000;
/** At once, and then by the second. */
const burstBytes = 8 * 1024 ** 2;
const bytesPerSecond = 16 * 1024;

export type Written = Readonly<{ keys: number; bytes: number }>;

export class Allowance {
  readonly #now: () => number;
  #leftBytes = burstBytes;
  #atMs: number;
  /** At most so many are there, but for what other hosts' jobs wrote since they were counted. */
  #keys = Infinity;

  /** `now`: in milliseconds, of a clock that nobody sets. */
  constructor(now: () => number) {
    this.#now = now;
    this.#atMs = now();
  }

  /** Takes it from what is left, or throws. `count`: of the keyspace's keys, asked for only where there may be too many. */
  async take({ keys, bytes }: Written, count: () => Promise<number>): Promise<void> {
    if (keys > 0 && this.#keys + keys > maxKeys) this.#keys = await count();
    if (keys > 0 && this.#keys + keys > maxKeys) {
      throw new Refusal('full', `the keyspace has ${this.#keys} keys and may have ${maxKeys}: delete some first`);
    }
    const now = this.#now();
    const leftBytes = Math.min(burstBytes, this.#leftBytes + ((now - this.#atMs) / 1_000) * bytesPerSecond);
    if (bytes > leftBytes) {
      const seconds = Math.ceil((bytes - leftBytes) / bytesPerSecond);
      throw new Refusal('full', `the job has written too much of late: it may write this in ${seconds} s`);
    }
    this.#atMs = now;
    this.#leftBytes = leftBytes - bytes;
    this.#keys += keys;
  }
}
