/** Keeps watch over hosts that are away: which are lost by now, and since when nobody dares to say so. */
import type { Cell } from './cell-view.ts';
import { judgeLosses, suspicionText, trackMissing } from './losses.ts';

export type LossWatchOptions = Readonly<{
  /**
   * How long after its lease ended a host is lost, default a quarter of one; when most hosts went at once, `lossHoldMs`, default 60
   * s.
   */
  lossGraceMs?: number;
  lossHoldMs?: number;
  /** How long those still away are waited for once most are back, default 5 s: their agents try every second. */
  lossReturnMs?: number;
}>;

export class LossWatch {
  readonly #options: LossWatchOptions;
  #missingSince = new Map<string, number>();
  #lost = new Set<string>();
  #suspicion: string | undefined;
  #isHeld = false;
  #heldUntil = -Infinity;
  #nextAt = 0;

  constructor(options: LossWatchOptions) {
    this.#options = options;
  }

  get lost(): ReadonlySet<string> {
    return this.#lost;
  }

  /** Why hosts that are away are not given up, if so. */
  get suspicion(): string | undefined {
    return this.#suspicion;
  }

  /** When the answer changes if nothing else does. */
  get nextAt(): number {
    return this.#nextAt;
  }

  /** A host came or went, or jobs of one did. */
  disturb(): void {
    this.#nextAt = 0;
  }

  /** The host is there: what is planned before the next look takes nothing from it. */
  found(hostId: string): void {
    this.#lost.delete(hostId);
    this.#missingSince.delete(hostId);
  }

  /** Hosts that are lost since the last look, and a suspicion that is new. */
  look(cell: Cell, now: number): { fresh: string[]; suspicion: string | undefined } {
    if (now < this.#nextAt) return { fresh: [], suspicion: undefined };
    const { lossGraceMs: graceMs = 250, lossHoldMs: holdMs = 60_000, lossReturnMs: returnMs = 5_000 } = this.#options;
    const present = cell.hosts.size;
    this.#missingSince = trackMissing(this.#missingSince, cell, now);
    if (this.#isHeld) this.#heldUntil = now;
    const pace = { graceMs, holdMs, returnMs, heldUntil: this.#heldUntil };
    const verdict = judgeLosses({ missingSince: this.#missingSince, present, now, ...pace });
    this.#isHeld = verdict.isHeld;
    const fresh = [...verdict.lost].filter((hostId) => !this.#lost.has(hostId));
    this.#lost = verdict.lost;
    this.#nextAt = verdict.nextAt ?? Infinity;
    const before = this.#suspicion;
    this.#suspicion = suspicionText(verdict, present, holdMs);
    return { fresh, suspicion: this.#suspicion === before ? undefined : this.#suspicion };
  }
}
