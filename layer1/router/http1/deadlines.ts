/**
 * One clock for all connections. A timer each would cost more than what it waits for: here a deadline is a number that
 * is looked at ten times a second, so it comes up to two ticks late and never early.
 */
export const tickMs = 100;

export type Watched = {
  /** Called at every tick. */
  tick(nowMs: number): void;
};

export class Deadlines {
  readonly #watched = new Set<Watched>();
  #timer: NodeJS.Timeout | undefined;
  #nowMs = performance.now();
  #wasStill = false;

  /** From here on that long, in the time that `tick` is told. */
  after(ms: number): number {
    return this.#nowMs + ms + tickMs;
  }

  get nowMs(): number {
    return this.#nowMs;
  }

  add(watched: Watched): void {
    this.#watched.add(watched);
    if (this.#timer !== undefined) return;
    this.#nowMs = performance.now();
    this.#timer = setInterval(() => this.#tick(), tickMs).unref();
  }

  delete(watched: Watched): void {
    this.#watched.delete(watched);
    if (this.#watched.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #tick(): void {
    const nowMs = performance.now();
    // After a standstill there may be bytes that nobody has read yet: they come before any verdict.
    this.#wasStill = !this.#wasStill && nowMs - this.#nowMs > 5 * tickMs;
    this.#nowMs = nowMs;
    if (this.#wasStill) return;
    for (const watched of this.#watched) watched.tick(nowMs);
  }
}
