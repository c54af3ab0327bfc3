/**
 * How many jobs are there to be for what there is to do? Target tracking as the HorizontalPodAutoscaler of Kubernetes has it
 * (https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#algorithm-details), told in jobs' worth of work:
 * `load / target` is how many jobs would be exactly at their target, and that many, rounded up, are wanted. Pure.
 */

/** Within this share of what the count stands for nothing is done. */
export const tolerance = 0.1;
/** At one time the count at most doubles, or rises by so many. */
const leastStep = 4;
/** What is this near to a whole number is one. */
const grain = 1e-6;

/**
 * In jobs' worth: there is at least so much to do, and at most. Apart where something could not be measured: a job that has just
 * begun may do nothing or all that is its share, and a host that says nothing anything at all (Infinity).
 */
export type Load = Readonly<{ low: number; high: number }>;

/** The most that any of the loads asks for: more jobs for what is there for sure, fewer for what is there at most. */
export function wantedFor(current: number, loads: readonly Load[]): number {
  return Math.max(...loads.map((load) => wantedForOne(current, load)));
}

function wantedForOne(current: number, { low, high }: Load): number {
  if (low > current * (1 + tolerance)) return Math.ceil(low - grain);
  if (high < current * (1 - tolerance)) return Math.max(0, Math.ceil(high - grain));
  return current;
}

/**
 * What was wanted lately, oldest first, without a gap; the first may be of long ago. Each is the most that was wanted from then
 * until the next one.
 */
export type Past = readonly Readonly<{ atMs: number; wanted: number }>[];

/** A span is remembered in so many parts, roughly, however often it is looked. */
const parts = 60;

/** With what is wanted now; what is older than the span goes, but for what was wanted at its beginning. */
export function withWanted(past: Past, now: Past[number], spanMs: number): Past {
  const [before, last] = [past.at(-2), past.at(-1)];
  const isClose = before !== undefined && last !== undefined && last.atMs - before.atMs < spanMs / parts;
  const all = isClose
    ? [...past.slice(0, -2), { atMs: before.atMs, wanted: Math.max(before.wanted, last.wanted) }, now]
    : [...past, now];
  const first = all.findLastIndex(({ atMs }) => atMs <= now.atMs - spanMs);
  return all.slice(Math.max(0, first));
}

export type Situation = Readonly<{
  current: number;
  min: number;
  max: number;
  /** Ends with what is wanted now. */
  past: Past;
  downAfterMs: number;
}>;

/**
 * Up in steps; down to the most that was wanted in `downAfterMs`, once that much is known; into the range whatever is wanted. Of
 * no jobs there stay none.
 */
export function nextCount({ current, min, max, past, downAfterMs }: Situation): number {
  if (current === 0) return 0;
  if (current < min || current > max) return Math.min(max, Math.max(min, current));
  const now = past.at(-1);
  if (now === undefined) return current;
  const wanted = Math.min(max, Math.max(min, now.wanted));
  if (wanted >= current) return Math.min(wanted, current + Math.max(current, leastStep));
  const isKnown = (past[0]?.atMs ?? Infinity) <= now.atMs - downAfterMs;
  if (!isKnown) return current;
  const most = Math.max(...past.map((one) => one.wanted));
  return Math.min(current, Math.max(min, most));
}
