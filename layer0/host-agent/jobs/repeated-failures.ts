/** A step that fails is tried again each second, for hours perhaps: which of its failures are told? */

const firstPauseMs = 60_000;
const longestPauseMs = 3_600_000;

type Told = Readonly<{ what: string; times: number; pauseMs: number; nextAtMs: number }>;

/** INVARIANT. What is told is told again only after a pause that doubles, until something else fails, or nothing. */
export class RepeatedFailures {
  readonly #ofJobs = new Map<string, Told>();

  /** How often the same has failed by now, where that is to be told; undefined where it was told a moment ago. */
  failed(jobId: string, what: string, nowMs: number): number | undefined {
    const before = this.#ofJobs.get(jobId);
    if (before?.what !== what) {
      this.#ofJobs.set(jobId, { what, times: 1, pauseMs: firstPauseMs, nextAtMs: nowMs + firstPauseMs });
      return 1;
    }
    const times = before.times + 1;
    if (nowMs < before.nextAtMs) {
      this.#ofJobs.set(jobId, { ...before, times });
      return undefined;
    }
    const pauseMs = Math.min(longestPauseMs, before.pauseMs * 2);
    this.#ofJobs.set(jobId, { what, times, pauseMs, nextAtMs: nowMs + pauseMs });
    return times;
  }

  succeeded(jobId: string): void {
    this.#ofJobs.delete(jobId);
  }
}
