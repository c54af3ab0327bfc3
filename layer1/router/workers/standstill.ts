/**
 * Does a worker stand still? One whose event loop does not turn any more lives on for the kernel, which gives it its part of the
 * new connections for ever.
 *
 * Only time counts in which both it and the one who asks could run. On a crowded machine, one that was suspended, or one that
 * is short of memory, nobody stands still for being late.
 */
import { heldUp } from './busy-time.ts';

export type Patience = {
  lookEveryMs: number;
  /** Of silence. */
  limitMs: number;
};

export const defaultPatience: Patience = { lookEveryMs: 1_000, limitMs: 30_000 };

/** At one moment, by a clock that never steps back. */
export type Sight = { readonly atMs: number } & ReturnType<typeof heldUp>;

export function sightOf(pid: number): Sight {
  return { atMs: performance.now(), ...heldUp(pid) };
}

export class Standstill {
  readonly #patience: Patience;
  #last: Sight;
  #silentMs = 0;
  #isAsked = false;

  constructor(patience: Patience, now: Sight) {
    this.#patience = patience;
    this.#last = now;
  }

  /** It said something, whatever that was. */
  heard(): void {
    this.#silentMs = 0;
    this.#isAsked = false;
  }

  /** To be called once in `lookEveryMs`. `ask`: it is to be asked something, and `still`: that was too long ago. */
  look(now: Sight): 'ask' | 'wait' | 'still' {
    const before = this.#last;
    this.#last = now;
    if (!this.#isAsked) {
      this.#isAsked = true;
      return 'ask';
    }
    // A look that comes late is one of a process that could not run itself.
    const passedMs = Math.min(now.atMs - before.atMs, 2 * this.#patience.lookEveryMs);
    if (!now.isBlocked) this.#silentMs += Math.max(0, passedMs - (now.waitedMs - before.waitedMs));
    if (this.#silentMs <= this.#patience.limitMs) return 'wait';
    this.#silentMs = 0;
    return 'still';
  }
}
