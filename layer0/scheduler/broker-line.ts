/** What waits of one workload, and which of two goes first. */
import type { Evaluation } from './evaluation.ts';

export type Queued = Readonly<{ evaluation: Evaluation; readyAt: number; order: number }>;
/** To the other schedulers, until then. */
export type Left = Readonly<{ queued: Queued; takenAt: number }>;
export type Outstanding = Readonly<{ evaluation: Evaluation; token: string; attempt: number; until: number }>;

/** What is known of one workload's evaluations. */
export type Line = {
  /** In the ready heap, the others' heap or the delay heap. */
  queued: Queued | undefined;
  outstanding: Outstanding | undefined;
  /** The outstanding one, handed in again meanwhile: it waited for room, and there may be some. */
  again: Evaluation | undefined;
  /** Behind the outstanding or the queued one, oldest first. */
  readonly pending: Evaluation[];
};

/** The higher priority, then the older. */
export function goesFirst(a: Queued, b: Queued): boolean {
  const byPriority = b.evaluation.priority - a.evaluation.priority;
  if (byPriority !== 0) return byPriority < 0;
  const byAge = a.evaluation.createdAt - b.evaluation.createdAt;
  return byAge === 0 ? a.order < b.order : byAge < 0;
}

/** Whether a new one of the workload goes before the one that is queued: that waits for later, or counts for less. */
export function isSooner(one: Queued, queued: Queued, now: number): boolean {
  if (one.readyAt <= now && queued.readyAt > now) return true;
  if (one.readyAt > now) return one.readyAt < queued.readyAt;
  return queued.readyAt <= now && goesFirst(one, queued);
}
