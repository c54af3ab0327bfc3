/** Hand-over between producers and one consumer, and mutual exclusion within a process. */
import { abortError } from './clock.ts';
import { FlynnError } from './errors.ts';

/**
 * An unbounded (or bounded) queue read with `for await`. Values come out in the order they were pushed. `end()` lets
 * what is queued be read first, then ends the iteration or throws the error. Stopping the iteration ends the queue;
 * pushes after the end are ignored, because a producer cannot know that its reader has just left.
 */
export class AsyncQueue<T> implements AsyncIterable<T> {
  readonly #values: T[] = [];
  readonly #waiting: PromiseWithResolvers<IteratorResult<T, undefined>>[] = [];
  readonly #limit: number;
  readonly #onOverflow: 'error' | 'drop-oldest';
  #ended: { error?: unknown } | undefined;

  /** At the limit, 'error' ends the queue with `exhausted`; 'drop-oldest' forgets the oldest value. */
  constructor(options: { limit?: number; onOverflow?: 'error' | 'drop-oldest' } = {}) {
    this.#limit = options.limit ?? Infinity;
    this.#onOverflow = options.onOverflow ?? 'error';
  }

  get size(): number {
    return this.#values.length;
  }

  get isEnded(): boolean {
    return this.#ended !== undefined;
  }

  push(value: T): void {
    if (this.#ended !== undefined) return;
    const reader = this.#waiting.shift();
    if (reader !== undefined) {
      reader.resolve({ value, done: false });
      return;
    }
    if (this.#values.length >= this.#limit) {
      if (this.#onOverflow === 'error') {
        this.end(new FlynnError('exhausted', `the reader is too slow: ${this.#limit} values are waiting for it`));
        return;
      }
      this.#values.shift();
    }
    this.#values.push(value);
  }

  end(error?: unknown): void {
    if (this.#ended !== undefined) return;
    this.#ended = error === undefined ? {} : { error };
    for (const reader of this.#waiting.splice(0)) this.#finish(reader);
  }

  #finish(reader: PromiseWithResolvers<IteratorResult<T, undefined>>): void {
    const error = this.#ended?.error;
    if (error === undefined) {
      reader.resolve({ value: undefined, done: true });
      return;
    }
    // The error is told once; a reader that comes back finds the queue at its end.
    this.#ended = {};
    reader.reject(error);
  }

  #next(): Promise<IteratorResult<T, undefined>> {
    const reader = Promise.withResolvers<IteratorResult<T, undefined>>();
    const [value] = this.#values;
    if (value !== undefined || this.#values.length > 0) {
      this.#values.shift();
      // The length was checked: an undefined here is a pushed undefined.
      reader.resolve({ value: value as T, done: false });
    } else if (this.#ended !== undefined) this.#finish(reader);
    else this.#waiting.push(reader);
    return reader.promise;
  }

  [Symbol.asyncIterator](): AsyncIterator<T, undefined> {
    return {
      next: () => this.#next(),
      return: async () => {
        this.#values.length = 0;
        this.end();
        return { value: undefined, done: true };
      },
    };
  }
}

/** Runs one function at a time, in the order they came. */
export class Mutex {
  #tail: Promise<unknown> = Promise.resolve();

  run<T>(fn: () => Promise<T>): Promise<T> {
    const result = this.#tail.then(fn);
    // The caller gets the failure from `result`; the next in line only waits for the end.
    this.#tail = result.catch(() => undefined);
    return result;
  }
}

/** A Mutex per key; keys nobody uses take no memory. */
export class KeyedMutex {
  readonly #tails = new Map<string, Promise<unknown>>();

  /** If the signal aborts while waiting its turn, `fn` never runs. Once running, `fn` looks after the signal itself. */
  async run<T>(key: string, fn: () => Promise<T>, options: { signal?: AbortSignal } = {}): Promise<T> {
    const { signal } = options;
    const before = this.#tails.get(key) ?? Promise.resolve();
    let hasLeft = false;
    const turn = before.then(() => {
      if (hasLeft || signal?.aborted === true) throw abortOf(signal);
      signal?.removeEventListener('abort', leave);
      return fn();
    });
    const left = Promise.withResolvers<never>();
    const leave = () => {
      hasLeft = true;
      left.reject(abortOf(signal));
    };
    const tail = turn.catch(() => undefined);
    this.#tails.set(key, tail);
    void tail.then(() => {
      if (this.#tails.get(key) === tail) this.#tails.delete(key);
    });
    if (signal === undefined) return turn;
    if (signal.aborted) leave();
    else signal.addEventListener('abort', leave, { once: true });
    return Promise.race([turn, left.promise]);
  }

  get size(): number {
    return this.#tails.size;
  }
}

function abortOf(signal: AbortSignal | undefined): FlynnError {
  return signal === undefined ? new FlynnError('cancelled', 'the work was cancelled') : abortError(signal);
}
