/** Work that several ask for is done once for all of them, and given up when the last of them has left. */
import { FlynnError } from './errors.ts';
import { KeyedMutex } from './queue.ts';
import { raceAbort } from './retry.ts';

type Work<T> = { result: Promise<T>; askers: number; ending: AbortController };

/**
 * INVARIANTS. Of each key one work goes on at a time, also while one that was given up comes to its end: whoever asks then has
 * another, which begins after it. What fails, fails for all who wait for it; who asks later has it tried anew.
 */
export class SharedWork<T> {
  readonly #underWay = new Map<string, Work<T>>();
  readonly #turns = new KeyedMutex();

  /** `work` has a signal that aborts when everybody has left. Who asks without a signal never leaves. */
  async run(
    key: string,
    work: (signal: AbortSignal) => Promise<T>,
    options: { signal?: AbortSignal } = {},
  ): Promise<T> {
    const { signal } = options;
    const shared = this.#underWay.get(key) ?? this.#begin(key, work);
    shared.askers += 1;
    try {
      return signal === undefined ? await shared.result : await raceAbort(shared.result, signal);
    } finally {
      shared.askers -= 1;
      if (shared.askers === 0) this.#end(key, shared);
    }
  }

  #begin(key: string, work: (signal: AbortSignal) => Promise<T>): Work<T> {
    const ending = new AbortController();
    const { signal } = ending;
    const shared = { result: this.#turns.run(key, () => work(signal), { signal }), askers: 0, ending };
    this.#underWay.set(key, shared);
    // At once, not when the askers come to know it: who asks from now on has another.
    const over = (): void => this.#forget(key, shared);
    shared.result.then(over, over);
    return shared;
  }

  #end(key: string, shared: Work<T>): void {
    this.#forget(key, shared);
    shared.ending.abort(new FlynnError('cancelled', 'nobody waits for it any more'));
  }

  #forget(key: string, shared: Work<T>): void {
    if (this.#underWay.get(key) === shared) this.#underWay.delete(key);
  }
}
