/** What a runner carries out, as figures. */
import type { Operation } from '@flynn/controller/model';
import { Metrics } from '@flynn/kit/metrics';

/** Operations last from seconds to an hour. */
const bounds = [1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600];

type Counts = {
  /** Counts what `run` carries out; undefined is what was not begun. */
  timed(kind: Operation['kind'], run: () => Promise<string | undefined>): Promise<void>;
};

export function operationMetrics(metrics: Metrics = new Metrics(), slots: number): Counts {
  const ended = metrics.counter('flynn_runner_operations_total', 'Operations carried out, by kind and end.');
  const seconds = metrics.histogram('flynn_runner_operation_duration_seconds', 'How long they took, by kind.', bounds);
  let running = 0;
  metrics.gauge('flynn_runner_operations_running', 'Operations under way.', () => [{ value: running }]);
  metrics.gauge('flynn_runner_slots', 'How many there may be at once.', () => [{ value: slots }]);
  return {
    async timed(kind, run) {
      const startedMs = performance.now();
      running += 1;
      try {
        const state = await run();
        if (state === undefined) return;
        ended.add({ kind, state });
        seconds.observe({ kind }, (performance.now() - startedMs) / 1_000);
      } finally {
        running -= 1;
      }
    },
  };
}
