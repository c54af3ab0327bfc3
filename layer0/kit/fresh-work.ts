/** A look at something that others change, for all who ask at one time: none is told of what was so before they came. */
import { raceAbort } from './retry.ts';

/** INVARIANT. One look goes on at a time; whoever comes during it has the next, together with all others who do. */
export class FreshWork<T> {
  readonly #work: () => Promise<T>;
  /** Ends with the look under way, and never fails. */
  #turn: Promise<unknown> = Promise.resolve();
  /** Not begun yet. */
  #next: Promise<T> | undefined;

  /** Has a deadline of its own: it does not end when those who asked have left. */
  constructor(work: () => Promise<T>) {
    this.#work = work;
  }

  /** What fails, fails for all who wait for that look. */
  async run(signal: AbortSignal): Promise<T> {
    this.#next ??= this.#begin();
    return raceAbort(this.#next, signal);
  }

  async #begin(): Promise<T> {
    await this.#turn;
    this.#next = undefined;
    const result = this.#work();
    this.#turn = result.catch(() => undefined);
    return result;
  }
}
