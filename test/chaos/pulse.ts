/** Asks the store for something all the time, never waiting for the answer before: for how long did nobody get one? */
import { TaskGroup } from '@flynn/kit/tasks';
import type { Store } from '@flynn/store/store';
import { askSteadily, longestGapMs } from '../steady-asking.ts';

const key = '/flynn/';
const everyMs = 200;

export class Pulse implements AsyncDisposable {
  readonly #store: Store;
  readonly #tasks = new TaskGroup();
  /** From its beginning on: what is asked first may have to wait longest. */
  readonly #answeredMs = [performance.now()];
  readonly #ending = new AbortController();

  constructor(store: Store) {
    this.#store = store;
    this.#tasks.run('reads', () => askSteadily(() => this.#ask(), { everyMs, signal: this.#ending.signal }));
  }

  /** The longest time without an answer since it began, in milliseconds. */
  async stop(): Promise<number> {
    this.#ending.abort();
    await this.#tasks.done();
    return longestGapMs(this.#answeredMs);
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
