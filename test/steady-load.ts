/** Requests one after another on a few lanes until told to stop; every answer that is not a 200 is kept. */
import type { Answer } from './test-cluster.ts';

export type LoadReport = { requests: number; failures: string[] };

export function startSteadyLoad(
  get: (signal: AbortSignal) => Promise<Answer>,
  options: { lanes: number; pauseMs: number; maxMs: number },
): { stop(): Promise<LoadReport> } {
  const ending = new AbortController();
  const report: LoadReport = { requests: 0, failures: [] };
  const endsAt = Date.now() + options.maxMs;

  async function lane(): Promise<void> {
    while (!ending.signal.aborted && Date.now() < endsAt) {
      try {
        const answer = await get(AbortSignal.timeout(15_000));
        report.requests += 1;
        if (answer.status !== 200) report.failures.push(`${answer.status}: ${answer.body.slice(0, 200)}`);
      } catch (error) {
        report.failures.push(error instanceof Error ? error.message : String(error));
      }
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
