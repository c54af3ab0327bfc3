/** Requests one after another on a few lanes until told to stop; every answer that is not a 200 is kept. */
import type { Answer } from './answer.ts';

export type LoadReport = { requests: number; failures: string[]; slowestMs: number };

/** Longer than anything that comes to an end: how long answers take is told, and fails nothing. */
const endlessMs = 60_000;

export function startSteadyLoad(
  get: (signal: AbortSignal) => Promise<Answer>,
  options: { lanes: number; pauseMs: number; maxMs: number },
): { stop(): Promise<LoadReport> } {
  const ending = new AbortController();
  const report: LoadReport = { requests: 0, failures: [], slowestMs: 0 };
  const endsAt = Date.now() + options.maxMs;

  async function lane(): Promise<void> {
    while (!ending.signal.aborted && Date.now() < endsAt) {
      const startedMs = performance.now();
      try {
        const answer = await get(AbortSignal.timeout(endlessMs));
        report.requests += 1;
        if (answer.status !== 200) report.failures.push(`${answer.status}: ${answer.body.slice(0, 200)}`);
      } catch (error) {
        report.failures.push(error instanceof Error ? error.message : String(error));
      }
      report.slowestMs = Math.max(report.slowestMs, performance.now() - startedMs);
      await new Promise((resolve) => setTimeout(resolve, options.pauseMs));
    }
  }

  const lanes = Promise.all(Array.from({ length: options.lanes }, lane));
  return {
    async stop() {
      ending.abort();
      await lanes;
      return report;
    },
  };
}
