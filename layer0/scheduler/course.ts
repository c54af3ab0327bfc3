/** Where what one evaluation asks for stands, from being handed out to being done. */
import type { Revision } from '@flynn/store/store';
import type { Delivery } from './broker.ts';

export type Course = {
  readonly delivery: Delivery;
  /** Whether the store had it when it was handed out: if not any more, somebody else saw to it. */
  readonly isStored: boolean;
  /** The cell the last plan was made on. */
  plannedAt: Revision;
  /** How many plans had been dropped by then, whose room it did not see. */
  dropsBefore: number;
  refusals: number;
  /** With a plan under way there is nothing to wait for but its end. */
  waits: Wait | undefined;
};

/** For the cell to be there, and for that time; no longer than `notAfter`. Then it is planned again, or done. */
export type Wait = Readonly<{ revision: Revision; notBefore: number; notAfter: number; next: 'plan' | 'done' }>;

/** Longer than a watch takes by far; compares see to safety. */
const patienceMs = 2_000;

export function waitOf(next: Wait['next'], revision: Revision, now: number, pauseMs = 0): Wait {
  return { revision, notBefore: now + pauseMs, notAfter: now + pauseMs + patienceMs, next };
}

/** When it goes on if the cell stays as it is. */
export function dueAt({ waits }: Course, revision: Revision): number {
  if (waits === undefined) return Infinity;
  return revision >= waits.revision ? waits.notBefore : waits.notAfter;
}

/** How long one waits that was refused so often: together again they would meet again. */
export function pauseAfter(refusals: number, random: () => number): number {
  return refusals > 1 ? random() * Math.min(50, 2 ** refusals) : 0;
}
