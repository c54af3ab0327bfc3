/** How far a removal has come, and once its time is over what was in its way. */
import { pause } from '@flynn/kit/clock';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { hangRemedy } from '@flynn/host-agent/engine/hang';

/** `quietMs`: after how long without a removal one looks whether the engine hangs. `answerMs`: which then has so long to answer. */
export type Patience = Readonly<{ quietMs: number; answerMs: number }>;

/** A removal on a busy machine takes seconds, and that of much data minutes; the shortest deadline here is a minute. */
const patient: Patience = { quietMs: 40_000, answerMs: 10_000 };

export class RemovalProgress {
  readonly #patience: Patience;
  #lastMs = performance.now();
  #askedMs: number | undefined;
  #isRefused = false;
  #refusal: unknown;

  constructor(patience: Patience = patient) {
    this.#patience = patience;
  }

  /** Whether the engine refused one of this round. */
  get isRefused(): boolean {
    return this.#isRefused;
  }

  /** Another round. What was refused in the one before counts until this one is through. */
  begin(): void {
    if (!this.#isRefused) this.#refusal = undefined;
    this.#isRefused = false;
  }

  /** A refusal is noted, and no error. */
  async removes(removal: Promise<unknown>, signal: AbortSignal): Promise<void> {
    try {
      await removal;
      this.#lastMs = performance.now();
    } catch (error) {
      // What is broken off was not refused.
      if (signal.aborted) throw error;
      this.#isRefused = true;
      this.#refusal = error;
    }
  }

  /**
   * Much data takes its time too: `ask` is for what an engine answers at once, unless the locks are stuck that removals want.
   * Resolves when the signal aborts.
   */
  async watch(ask: (signal: AbortSignal) => Promise<unknown>, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await pause(this.#patience.quietMs / 10, signal);
      if (signal.aborted || performance.now() - this.#lastMs < this.#patience.quietMs) continue;
      this.#askedMs = performance.now();
      // A refusal is an answer.
      await ask(signal).catch(() => undefined);
      if (!signal.aborted) this.#askedMs = undefined;
    }
  }

  /** Undefined where nothing is known but that the time is over. */
  explained(what: string): FlynnError | undefined {
    const cause = this.#refusal;
    if (this.#askedMs !== undefined && performance.now() - this.#askedMs >= this.#patience.answerMs) {
      const quietSeconds = Math.round((performance.now() - this.#lastMs) / 1_000);
      const message = `the engine hangs: it lists containers, and removed none of these ${what} for ${quietSeconds} s. Restart it: ${hangRemedy()}. Then go on`;
      return new FlynnError('unavailable', message, { cause });
    }
    if (cause === undefined) return undefined;
    return new FlynnError('conflict', `the engine keeps ${what} of it: ${messageOf(cause)}`, { cause });
  }
}
