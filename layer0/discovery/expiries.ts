/** What has to be renewed in time. */

export class Expiries {
  readonly #timers = new Map<string, NodeJS.Timeout>();
  #isStopped = false;

  /** From now on; a later call for the same key takes the place of this one. */
  keepFor(ttlSeconds: number, key: string, expire: () => void): void {
    if (this.#isStopped) return;
    this.forget(key);
    const timer = setTimeout(() => {
      this.#timers.delete(key);
      expire();
    }, ttlSeconds * 1_000);
    this.#timers.set(key, timer);
  }

  /** Whether it was to expire. */
  forget(key: string): boolean {
    clearTimeout(this.#timers.get(key));
    return this.#timers.delete(key);
  }

  has(key: string): boolean {
    return this.#timers.has(key);
  }

  /** Nothing expires any more; what had to be renewed is still known. */
  stop(): void {
    this.#isStopped = true;
    for (const timer of this.#timers.values()) clearTimeout(timer);
  }
}
