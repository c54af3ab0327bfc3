/** Which leases are one job's? Another's, kept alive or attached by it, would have others' keys live and die with its own. */
import { Refusal } from './refusal.ts';

export type LeaseState = Readonly<{
  /** Not above 0: there is no such lease. */
  ttlSeconds: number;
  areKeysInside: boolean;
  keys: number;
}>;

export type LeasesOptions = Readonly<{
  /** As etcd knows it. Errors are those of asking it. */
  look: (id: string, signal: AbortSignal) => Promise<LeaseState>;
  /** In milliseconds, of a clock that nobody sets. */
  now: () => number;
}>;

const maxLeases = 100;

export class Leases {
  readonly #options: LeasesOptions;
  /** By id: when etcd ends it at the earliest. */
  readonly #known = new Map<string, number>();

  constructor(options: LeasesOptions) {
    this.#options = options;
  }

  /** Before one is asked for: those that a job forgot end by themselves. */
  admit(): void {
    for (const [id, endsAtMs] of this.#known) if (endsAtMs <= this.#options.now()) this.#known.delete(id);
    if (this.#known.size < maxLeases) return;
    throw new Refusal('full', `the job has ${maxLeases} leases already: keep one alive, or wait until they end`);
  }

  /** It was granted, or kept alive, by a request that was sent at `askedMs`. */
  note(id: string, ttlSeconds: number, askedMs: number): void {
    this.#known.set(id, askedMs + ttlSeconds * 1_000);
  }

  forget(id: string): void {
    this.#known.delete(id);
  }

  /**
   * Of one that is not known, as after a restart of the agent, etcd is asked: it is the job's if it has keys, and all of them
   * are of its keyspace. One without keys may be anybody's, and is nobody's.
   */
  async has(id: string, signal: AbortSignal): Promise<boolean> {
    const { look, now } = this.#options;
    if ((this.#known.get(id) ?? -Infinity) > now()) return true;
    const askedMs = now();
    const { ttlSeconds, areKeysInside, keys } = await look(id, signal);
    if (ttlSeconds <= 0 || keys === 0 || !areKeysInside) return false;
    this.note(id, ttlSeconds, askedMs);
    return true;
  }
}
