/** How many requests may a client send? */

/**
 * So many a second and client, after as many at once as the burst allows. The generic cell rate algorithm (ITU-T I.371):
 * a token bucket that keeps one number for each client, the time at which its bucket will be full.
 *
 * INVARIANT. Knows at most `maxClients`: whoever was not seen for the longest time is forgotten first, and has a full
 * bucket again.
 */
export class RateLimit {
  readonly #intervalMs: number;
  readonly #burstMs: number;
  readonly #maxClients: number;
  /** In the order in which they were last let through. */
  readonly #fullAtMs = new Map<string, number>();

  constructor(options: { perSecond: number; burst: number; maxClients?: number }) {
    this.#intervalMs = 1_000 / options.perSecond;
    this.#burstMs = this.#intervalMs * (Math.max(1, options.burst) - 1);
    this.#maxClients = options.maxClients ?? 16_384;
  }

  /** 0 lets it through; else how many milliseconds it is too early. `nowMs` is of a clock that never steps back. */
  take(client: string, nowMs: number): number {
    const known = this.#fullAtMs.get(client);
    const fullAtMs = known === undefined || known < nowMs ? nowMs : known;
    // A thousandth of a millisecond is the rounding of many additions, not earliness.
    const earlyMs = fullAtMs - this.#burstMs - nowMs;
    if (earlyMs > 0.001) return earlyMs;
    if (known !== undefined) this.#fullAtMs.delete(client);
    else if (this.#fullAtMs.size >= this.#maxClients) this.#forgetOldest();
    this.#fullAtMs.set(client, fullAtMs + this.#intervalMs);
    return 0;
  }

  /** One that was let through is not to count. */
  giveBack(client: string): void {
    const fullAtMs = this.#fullAtMs.get(client);
    if (fullAtMs !== undefined) this.#fullAtMs.set(client, fullAtMs - this.#intervalMs);
  }

  #forgetOldest(): void {
    const [oldest] = this.#fullAtMs.keys();
    if (oldest !== undefined) this.#fullAtMs.delete(oldest);
  }
}

/** How many requests are under way at the same time, of each client and of all. */
export class Concurrency {
  readonly #perClient: number;
  #total: number;
  readonly #active = new Map<string, number>();
  #all = 0;

  constructor(options: { perClient?: number | undefined; total?: number | undefined }) {
    this.#perClient = options.perClient ?? Infinity;
    this.#total = options.total ?? Infinity;
  }

  /** What is under way beyond it goes on. */
  set total(most: number) {
    this.#total = most;
  }

  /** Counts it if there is room; `leave` has to be called once for each that came in. */
  enter(client: string): 'entered' | 'client-full' | 'full' {
    if (this.#all >= this.#total) return 'full';
    const active = this.#active.get(client) ?? 0;
    if (active >= this.#perClient) return 'client-full';
    this.#all += 1;
    this.#active.set(client, active + 1);
    return 'entered';
  }

  leave(client: string): void {
    this.#all -= 1;
    const left = (this.#active.get(client) ?? 1) - 1;
    if (left === 0) this.#active.delete(client);
    else this.#active.set(client, left);
  }
}
