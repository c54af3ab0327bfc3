/** A number for each workload anything is known of. */
import type { Homes, Workload } from '../cell.ts';
import type { Evaluation } from '../evaluation.ts';
import type { Versioned } from '../cell-view.ts';
import { noRow } from './job-rows.ts';
import type { Revision } from '@flynn/store/store';

export type WorkloadSlot = {
  readonly id: string;
  record: Versioned<Workload> | undefined;
  /** Pending and blocked ones, oldest first. */
  evaluations: readonly Versioned<Evaluation>[];
  /** The modRevision of `plans/<workload>`, 0 without. */
  planRevision: Revision;
  /** As `plans/<workload>` has them. */
  homes: Homes | undefined;
  firstJob: number;
  /** Rows of jobs in its list, and how many of them are assigned. */
  rows: number;
  assigned: number;
};

const none: readonly Versioned<Evaluation>[] = [];

/** INVARIANTS. A slot is kept exactly as long as it says something. */
export class WorkloadSlots {
  readonly numbers = new Map<string, number>();
  readonly #slots: (WorkloadSlot | undefined)[] = [];
  readonly #free: number[] = [];

  take(id: string): number {
    const known = this.numbers.get(id);
    if (known !== undefined) return known;
    const number = this.#free.pop() ?? this.#slots.length;
    this.#slots[number] = {
      id,
      record: undefined,
      evaluations: none,
      planRevision: 0,
      homes: undefined,
      firstJob: noRow,
      rows: 0,
      assigned: 0,
    };
    this.numbers.set(id, number);
    return number;
  }

  at(number: number): WorkloadSlot | undefined {
    return this.#slots[number];
  }

  find(id: string): WorkloadSlot | undefined {
    const number = this.numbers.get(id);
    return number === undefined ? undefined : this.#slots[number];
  }

  freeIfEmpty(number: number): void {
    const slot = this.#slots[number];
    if (slot === undefined || slot.record !== undefined || slot.planRevision !== 0) return;
    if (slot.evaluations.length > 0 || slot.rows > 0) return;
    this.numbers.delete(slot.id);
    this.#slots[number] = undefined;
    this.#free.push(number);
  }
}
