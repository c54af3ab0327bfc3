/** What a scheduler does, as figures. */
import type { Metrics } from '@flynn/kit/metrics';
import type { SchedulerCounts } from './scheduler.ts';

export function schedulerMetrics(metrics: Metrics, counts: () => SchedulerCounts): void {
  const name = (rest: string) => `flynn_scheduler_${rest}`;
  const one = (read: (counts: SchedulerCounts) => number) => () => [{ value: read(counts()) }];
  metrics.gauge(name('evaluations'), 'Evaluations by state: ready, waiting, pending, outstanding, blocked.', () =>
    Object.entries(counts().evaluations).map(([state, value]) => ({ labels: { state }, value })),
  );
  for (const [rest, help, read] of [
    ['placements_total', 'Jobs placed.', ({ placements }: SchedulerCounts) => placements],
    ['commits_total', 'Plans committed, several in one.', ({ committed }: SchedulerCounts) => committed],
    ['refusals_total', 'Commits refused because the cell had moved on.', ({ refused }: SchedulerCounts) => refused],
    ['conflicts_total', 'Hosts and plans that stood in the way.', ({ conflicts }: SchedulerCounts) => conflicts],
    ['drift_total', 'Entries its view of the cell had lost.', ({ drift }: SchedulerCounts) => drift],
  ] as const) {
    metrics.counted(name(rest), help, one(read));
  }
}
