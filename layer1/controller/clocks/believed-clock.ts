/** Is a clock believed, where what it says is too old goes for good? Pure. */

const hourMs = 3_600_000;
/** A cluster that is off for a night loses none. */
const leapMs = 12 * hourMs;
/** A clock that has gone on for so long since it leapt is right: the cluster was off. */
const settledMs = 24 * hourMs;

/**
 * Since when it is ahead, as it has it itself; undefined where it is believed. `lastMs`: what it was when it was believed last,
 * where that is known; `aheadMs`: what this answered the last time.
 */
export function aheadSince(
  { lastMs, aheadMs }: Readonly<{ lastMs: number | undefined; aheadMs: number | undefined }>,
  nowMs: number,
): number | undefined {
  if (lastMs === undefined || nowMs <= lastMs + leapMs) return undefined;
  const sinceMs = aheadMs === undefined || aheadMs > nowMs ? nowMs : aheadMs;
  return nowMs >= sinceMs + settledMs ? undefined : sinceMs;
}
