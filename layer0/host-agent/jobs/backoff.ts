/** When does a job that ended by itself start again? */

const longestMs = 60_000;
const longestPatience = 4;
/** A run this long was not a failing start: counting begins anew. */
const goodRunMs = 60_000;

/** How many times in a row it failed, this time included. */
export function countFailures(before: number, runMs: number): number {
  return runMs >= goodRunMs ? 1 : before + 1;
}

/** At once after the first failure, then 1, 2, 4 … 60 s. */
export function restartDelayMs(failures: number): number {
  return failures <= 1 ? 0 : Math.min(longestMs, 1000 * 2 ** Math.min(failures - 2, 20));
}

/**
 * By how much longer than its check says a job may take to come up, after so many starts that took too long. Those that start
 * together, after a power cut say, may each take longer than any does alone: ended and started together again, none ever came up.
 */
export function startPatience(lateStarts: number): number {
  return Math.min(longestPatience, 2 ** lateStarts);
}

/** A start planned for later than any pause is due: the clock it was planned by has been set back since. */
export function isStartDue(nextStartAt: number, now: number): boolean {
  return nextStartAt <= now || nextStartAt > now + longestMs;
}
