/** Long-lived tasks that live and die together. */
import { systemClock } from './clock.ts';
import type { Logger } from './log.ts';
import { backoffMs } from './retry.ts';

/**
 * INVARIANTS. The first task that fails aborts `signal`, and with it every sibling. After an abort, whatever a task
 * throws is its way of ending, not a failure. `done()` settles only when every task has ended.
 */
export class TaskGroup implements AsyncDisposable {
  readonly #controller = new AbortController();
  readonly #running = new Map<Promise<void>, string>();
  #failure: { error: unknown } | undefined;

  readonly signal: AbortSignal;

  constructor(options: { signal?: AbortSignal } = {}) {
    this.signal =
      options.signal === undefined
        ? this.#controller.signal
        : AbortSignal.any([options.signal, this.#controller.signal]);
  }

  /** Names of the tasks that have not ended, for saying what a shutdown waits for. */
  get running(): string[] {
    return [...this.#running.values()];
  }

  /** The task has to end soon after its signal aborts. Ending early without an error is fine. */
  run(name: string, task: (signal: AbortSignal) => Promise<void>): void {
    const ended = this.#watch(task).finally(() => this.#running.delete(ended));
    this.#running.set(ended, name);
  }

  async #watch(task: (signal: AbortSignal) => Promise<void>): Promise<void> {
    // A task started after the end would hold up a shutdown that already counted the others.
    if (this.signal.aborted) return;
    try {
      await task(this.signal);
    } catch (error) {
      if (this.signal.aborted) return;
      this.#failure = { error };
      this.#controller.abort(error);
    }
  }

  /** Resolves when every task has ended; rejects with the first failure once its siblings have ended too. */
  async done(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running.keys());
    if (this.#failure !== undefined) throw this.#failure.error;
  }

  /** Aborts and waits for the tasks to end. A failure from before is `done()`'s to tell. */
  async stop(): Promise<void> {
    this.#controller.abort();
    while (this.#running.size > 0) await Promise.all(this.#running.keys());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}

/**
 * Runs `step` again and again until the signal aborts, then returns. A step that throws is logged and followed by a
 * pause that grows from minMs (default 100) to maxMs (default 10,000) while it keeps failing. A step does its own waiting:
 * one that returns at once is run again at once. What `isFinal` says yes to is thrown on: trying again is of no use.
 */
export async function forever(
  name: string,
  step: (signal: AbortSignal) => Promise<void>,
  options: {
    signal: AbortSignal;
    log: Logger;
    minMs?: number;
    maxMs?: number;
    isFinal?: (error: unknown) => boolean;
  },
): Promise<void> {
  const { signal, log, minMs = 100, maxMs = 10_000, isFinal = () => false } = options;
  let failures = 0;
  while (!signal.aborted) {
    try {
      await step(signal);
      failures = 0;
      // A step that never really waits must not keep timers and sockets from being served.
      await new Promise<void>((resolve) => setImmediate(resolve));
    } catch (error) {
      if (signal.aborted) return;
      if (isFinal(error)) throw error;
      const pauseMs = Math.round(backoffMs(failures, { minMs, maxMs }));
      failures += 1;
      log.warn({ err: error, task: name, failures, pauseMs }, `${name} failed, trying again in ${pauseMs} ms`);
      await systemClock.sleep(pauseMs, { signal }).catch((wake: unknown) => {
        if (!signal.aborted) throw wake;
      });
    }
  }
}
