/** When is it time for something that was set to a moment? Pure. */

/**
 * In how many milliseconds it is due. `mostMs`: as far away as such a moment is ever set. What is further away was set by a
 * clock that was ahead, and has been put right since: it is due now, as it would not be for as long as that clock was ahead.
 */
export function dueInMs(atMs: number, nowMs: number, mostMs: number): number {
  const leftMs = atMs - nowMs;
  return leftMs > mostMs ? 0 : Math.max(0, leftMs);
}
