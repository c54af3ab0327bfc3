/** Asks the store for something all the time, never waiting for the answer before: for how long did nobody get one? */
import { pause } from '@flynn/kit/clock';
import { TaskGroup } from '@flynn/kit/tasks';
import type { Store } from '@flynn/store/store';

const key = '/flynn/';
const everyMs = 200;

export class Pulse implements AsyncDisposable {
  readonly #store: Store;
  readonly #tasks = new TaskGroup();
  readonly #answeredMs: number[] = [];
  readonly #ending = new AbortController();

  constructor(store: Store) {
    this.#store = store;
    this.#tasks.run('reads', () => this.#beat());
  }

  /** The longest time without an answer since it began, in milliseconds. */
  async stop(): Promise<number> {
    this.#ending.abort();
    await this.#tasks.done();
    const ends = this.#answeredMs.toSorted((a, b) => a - b);
    return ends.reduce((longest, endMs, at) => Math.max(longest, endMs - (ends[at - 1] ?? endMs)), 0);
  }

  async #beat(): Promise<void> {
    const running = new Set<Promise<void>>();
    while (!this.#ending.signal.aborted) {
      const asking = this.#ask().finally(() => running.delete(asking));
      running.add(asking);
      await pause(everyMs, this.#ending.signal);
    }
    await Promise.all(running);
  }

  async #ask(): Promise<void> {
    try {
      // Needs a majority, as a host's lease does.
      await this.#store.get(key);
      this.#answeredMs.push(performance.now());
    } catch {
      // It is the next one's to tell how long that lasts.
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}
