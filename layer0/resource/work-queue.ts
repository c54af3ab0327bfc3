/** Ids waiting to be worked on: each at most once, never the same one twice at a time, failures ever later. */
import { hasCode } from '@flynn/kit/errors';

export type Again = { againInMs: number };

const longestPauseMs = 60_000;
/** That something is away or full is no fault of the id's: when it is back, nobody waits much longer. */
const longestOutagePauseMs = 5_000;

/** Pauses after the first, second, third ... failure in a row: 0.1 s, then 1 s doubling up to 60 s, in an outage to 5 s. */
export function failurePauseMs(failures: number, error?: unknown): number {
  const longestMs = hasCode(error, 'unavailable', 'timeout', 'exhausted') ? longestOutagePauseMs : longestPauseMs;
  return failures <= 1 ? 100 : Math.min(longestMs, 1_000 * 2 ** Math.min(failures - 2, 20));
}

/** What timers hold, 25 days; a longer one would end at once. */
const longestTimerMs = 2 ** 31 - 1;

/** A change while an id waits after a failure brings it forward, but not to less than this after the failure. */
const changedRetryMs = 1_000;

type Failed = { count: number; atMs: number };

/**
 * INVARIANTS. An id is in at most one of ready, timers and running. `again` holds only running ids: they are ready once
 * their run ends.
 */
export class WorkQueue {
  readonly #ready = new Set<string>();
  readonly #timers = new Map<string, { timer: NodeJS.Timeout; dueMs: number }>();
  readonly #running = new Map<string, Promise<void>>();
  readonly #again = new Set<string>();
  readonly #failed = new Map<string, Failed>();
  readonly #concurrency: number;
  readonly #work: (id: string) => Promise<void | Again>;
  readonly #onFailure: (id: string, error: unknown, pauseMs: number) => void;
  #isStopped = false;

  constructor(options: {
    concurrency: number;
    work: (id: string) => Promise<void | Again>;
    onFailure: (id: string, error: unknown, pauseMs: number) => void;
  }) {
    this.#concurrency = options.concurrency;
    this.#work = options.work;
    this.#onFailure = options.onFailure;
  }

  add(id: string): void {
    if (this.#isStopped) return;
    if (this.#running.has(id)) {
      this.#again.add(id);
      return;
    }
    const failed = this.#failed.get(id);
    const waitMs = failed === undefined ? 0 : failed.atMs + changedRetryMs - performance.now();
    if (waitMs > 0) {
      this.#addIn(id, waitMs);
      return;
    }
    this.#makeReady(id);
  }

  /** Starts nothing any more, and resolves when what runs has ended. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    for (const { timer } of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
    this.#ready.clear();
    await Promise.all(this.#running.values());
  }

  /** The earlier of this time and the one it waits for already. */
  #addIn(id: string, ms: number): void {
    if (this.#isStopped || this.#ready.has(id)) return;
    const pauseMs = Math.min(Math.max(0, ms), longestTimerMs);
    const dueMs = performance.now() + pauseMs;
    const waiting = this.#timers.get(id);
    if (waiting !== undefined && waiting.dueMs <= dueMs) return;
    clearTimeout(waiting?.timer);
    this.#timers.set(id, { dueMs, timer: setTimeout(() => this.#makeReady(id), pauseMs) });
  }

  #makeReady(id: string): void {
    clearTimeout(this.#timers.get(id)?.timer);
    this.#timers.delete(id);
    this.#ready.add(id);
    this.#fill();
  }

  #fill(): void {
    for (const id of this.#ready) {
      if (this.#isStopped || this.#running.size >= this.#concurrency) return;
      this.#ready.delete(id);
      // Later, when it counts as running: work may add its own id at once. #run never rejects.
      const run = Promise.resolve().then(() => this.#run(id));
      this.#running.set(id, run);
    }
  }

  async #run(id: string): Promise<void> {
    let againInMs: number | undefined;
    let isFailed = false;
    try {
      againInMs = (await this.#work(id))?.againInMs;
      this.#failed.delete(id);
    } catch (error) {
      isFailed = true;
      const count = (this.#failed.get(id)?.count ?? 0) + 1;
      this.#failed.set(id, { count, atMs: performance.now() });
      againInMs = failurePauseMs(count, error);
      if (!this.#isStopped) this.#onFailure(id, error, againInMs);
    }
    this.#running.delete(id);
    const isChanged = this.#again.delete(id);
    if (isChanged && !isFailed && !this.#isStopped) this.#ready.add(id);
    else if (againInMs !== undefined) this.#addIn(id, againInMs);
    this.#fill();
  }
}
