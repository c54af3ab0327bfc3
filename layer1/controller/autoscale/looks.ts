/** When is a type that is scaled by itself looked at? Pure. */

/** Looks fall on the same moments, whatever the windows: each host and router is asked once for all. */
const intervals = [2_500, 5_000, 10_000] as const;
export const longestIntervalMs = Math.max(...intervals);
/** Looks in a window, at least. */
const least = 4;

/** Of a window of this length. A short one of one app is no reason to look at others more often. */
export function intervalOf(windowMs: number): number {
  return intervals.findLast((ms) => ms * least <= windowMs) ?? intervals[0];
}

/** The next moment, after now. */
export function nextLookMs(nowMs: number, everyMs: number): number {
  return (Math.floor(nowMs / everyMs) + 1) * everyMs;
}
