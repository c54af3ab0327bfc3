/**
 * One clock for all connections. A timer each would cost more than what it waits for: here a deadline is a number that
 * is looked at ten times a second, so it comes up to two ticks late and never early.
 *
 * Only the time in which this process could listen counts. While it stands still, or is starved by others, what its peers
 * said waits to be read: nobody of them was slow.
 */
export const tickMs = 100;

/** Counted of the time from one look to the next. More is a standstill. */
const maxStepMs = 5 * tickMs;

export type Watched = {
  /** Called at every tick. */
  tick(nowMs: number): void;
};

export class Deadlines {
  readonly #elapsed: () => number;
  readonly #watched = new Set<Watched>();
  #timer: NodeJS.Timeout | undefined;
  #nowMs = 0;
  #lookedMs = 0;
  #wasStill = false;

  /** `elapsed`: milliseconds of a clock that never goes back. */
  constructor(elapsed: () => number = () => performance.now()) {
    this.#elapsed = elapsed;
  }

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
    this.#lookedMs = this.#elapsed();
    this.#timer = setInterval(() => this.#tick(), tickMs).unref();
  }

  /** Calls `late` once, so long from now, unless what it answers is called before. */
  start(ms: number, late: () => void): () => void {
    const endMs = this.after(ms);
    const watched: Watched = {
      tick: (nowMs) => {
        if (nowMs <= endMs) return;
        this.delete(watched);
        late();
      },
    };
    this.add(watched);
    return () => this.delete(watched);
  }

  delete(watched: Watched): void {
    this.#watched.delete(watched);
    if (this.#watched.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #tick(): void {
    const elapsedMs = this.#elapsed();
    const stepMs = elapsedMs - this.#lookedMs;
    this.#lookedMs = elapsedMs;
    this.#nowMs += Math.min(stepMs, maxStepMs);
    // After a standstill there may be bytes that nobody has read yet: they come before any verdict.
    this.#wasStill = !this.#wasStill && stepMs > maxStepMs;
    if (this.#wasStill) return;
    for (const watched of this.#watched) watched.tick(this.#nowMs);
  }
}
