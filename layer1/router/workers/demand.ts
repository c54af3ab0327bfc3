/** How many workers does a router need for what there is to do? */
import type { WorkerRange } from './count.ts';

/** One that is this busy, look after look, gets another beside it: it has as much again until it is full. */
export const busyShare = 0.5;
/** So many looks in a row. The only one has been started a moment ago, or is to be more processes for good: it has to last. */
export const busyLooks = (count: number): number => (count === 1 ? 6 : 2);
/** So busy on average would those be that are left when one goes: far enough from `busyShare` for it not to come back. */
export const calmShare = 0.25;
/** For so long it has to be calm: what comes every few minutes finds the workers that it needs. */
export const calmMs = 300_000;

export type Demand = {
  readonly count: number;
  /** So many looks in a row have found one busy. */
  readonly busyLooks: number;
  readonly calmSinceMs: number | undefined;
};

export const demandOf = (count: number): Demand => ({ count, busyLooks: 0, calmSinceMs: undefined });

/** `shares` are of the time since the look before, one for each worker. One more or one less at a time. */
export function demandAfter(
  before: Demand,
  look: { readonly atMs: number; readonly shares: readonly number[] },
  { least, most }: WorkerRange,
): Demand {
  const { count } = before;
  if (Math.max(0, ...look.shares) >= busyShare) {
    const looks = before.busyLooks + 1;
    if (looks >= busyLooks(count) && count < most) return demandOf(count + 1);
    return { count, busyLooks: looks, calmSinceMs: undefined };
  }
  const all = look.shares.reduce((sum, share) => sum + share, 0);
  if (count <= least || all > calmShare * (count - 1)) return demandOf(count);
  const calmSinceMs = before.calmSinceMs ?? look.atMs;
  if (look.atMs - calmSinceMs >= calmMs) return demandOf(count - 1);
  return { count, busyLooks: 0, calmSinceMs };
}
