/** Is another machine this host as well, and since when? */
import { absenceSeconds } from './absence.ts';
import type { Rival } from './own-runs.ts';

/** Longer than what an agent that ended leaves behind: whoever holds the record by then lives. */
export const certainMs = absenceSeconds * 1_000 + 5_000;
/** Looks come every second; one may take as long as a call to the store. */
const freshMs = 15_000;
/** How long people are told of one that tried, and was sent away. */
const triedMs = 3_600_000;

type Met = { rival: Rival; isTakenBack: boolean; firstMs: number; lastMs: number };

export type KnownRival = { address: string; isTakenBack: boolean };

/** On performance.now()'s clock. */
export class Rivals {
  #met: Met | undefined;

  met(rival: Rival, isTakenBack: boolean, nowMs = performance.now()): void {
    const before = this.#met;
    const isSame = before?.rival.lease === rival.lease && !before.isTakenBack && nowMs - before.lastMs < freshMs;
    this.#met = { rival, isTakenBack, firstMs: isSame ? before.firstMs : nowMs, lastMs: nowMs };
  }

  /** Not one whose record may be what is left of an agent of this host. */
  known(nowMs = performance.now()): KnownRival | undefined {
    if (this.#met === undefined) return undefined;
    const { rival, isTakenBack, firstMs, lastMs } = this.#met;
    const isThere = isTakenBack ? nowMs - lastMs < triedMs : nowMs - lastMs < freshMs && nowMs - firstMs >= certainMs;
    return isThere ? { address: rival.record.address, isTakenBack } : undefined;
  }
}
