/** A deadline that every step moves on: of what may take as long as it gets on. */
import { FlynnError } from '@flynn/kit/errors';

const usualQuietMs = 10 * 60_000;

export class Stall implements Disposable {
  /** Aborts with `timeout` once nothing has got on for so long, or with the signal it was given. */
  readonly signal: AbortSignal;
  readonly #timer: NodeJS.Timeout;

  constructor({ what, signal, quietMs = usualQuietMs }: { what: string; signal: AbortSignal; quietMs?: number }) {
    const stalled = new AbortController();
    this.signal = AbortSignal.any([signal, stalled.signal]);
    this.#timer = setTimeout(() => {
      stalled.abort(new FlynnError('timeout', `${what} did not get on for ${quietMs / 1_000} s`));
    }, quietMs);
  }

  progressed(): void {
    this.#timer.refresh();
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
  }
}
