/** Bounds how many things go on at once; who waits gives up when its signal aborts. */
import { FlynnError } from './errors.ts';

export class Slots {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(count: number) {
    this.#free = count;
  }

  /** Whoever comes now has to wait. */
  get isFull(): boolean {
    return this.#free === 0;
  }

  get free(): number {
    return this.#free;
  }

  async run<T>(task: () => Promise<T>, options: { signal: AbortSignal }): Promise<T> {
    await this.#take(options.signal);
    try {
      return await task();
    } finally {
      this.#give();
    }
  }

  #take(signal: AbortSignal): Promise<void> {
    if (this.#free > 0) {
      this.#free -= 1;
      return Promise.resolve();
    }
    return new Promise((resolve, reject) => {
      const enter = () => {
        signal.removeEventListener('abort', leave);
        resolve();
      };
      const leave = () => {
        this.#waiting.splice(this.#waiting.indexOf(enter), 1);
        reject(new FlynnError('cancelled', 'the work was cancelled before its turn came'));
      };
      if (signal.aborted) return reject(new FlynnError('cancelled', 'the work was cancelled before its turn came'));
      this.#waiting.push(enter);
      signal.addEventListener('abort', leave, { once: true });
      return undefined;
    });
  }

  #give(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#free += 1;
    else next();
  }
}
