/** When is a type that is scaled by itself looked at? Pure. */

/** Looks fall on the same moments, whatever the windows: each host and router is asked once for all. */
const intervals = [2_500, 5_000, 10_000] as const;
export const longestIntervalMs = Math.max(...intervals);
const idleMs = 3_600_000;
/** Looks in a window, at least. */
const least = 4;

/** Of a window of this length. A short one of one app is no reason to look at others more often. */
export function intervalOf(windowMs: number): number {
  return intervals.findLast((ms) => ms * least <= windowMs) ?? intervals[0];
}

/**
 * How long to sleep until that moment, Infinity where there is nothing to look at. None is further away than the longest interval
 * but by a clock that was ahead when it was set, and may be put right in the middle of a look.
 */
export function sleepMs(nextMs: number, nowMs: number): number {
  return nextMs === Infinity ? idleMs : Math.min(longestIntervalMs, Math.max(0, nextMs - nowMs));
}

/** The next moment, after now. */
export function nextLookMs(nowMs: number, everyMs: number): number {
  return (Math.floor(nowMs / everyMs) + 1) * everyMs;
}
