/** What the log aggregator takes, keeps and passes on, as figures. */
import type { Metrics } from '@flynn/kit/metrics';
import type { Drains } from './drains.ts';
import type { History } from './history.ts';

/** Answers what is to be told of each sending that was taken. */
export function logMetrics(
  metrics: Metrics,
  { history, drains }: { history: Pick<History, 'apps' | 'bytes' | 'followers'>; drains: Pick<Drains, 'status'> },
): (taken: { lines: number; refused: number }) => void {
  const name = (rest: string) => `flynn_logs_${rest}`;
  const lines = metrics.counter(name('lines_total'), 'New lines taken.');
  const refused = metrics.counter(name('lines_refused_total'), 'Lines that were none.');
  metrics.gauge(name('bytes'), 'Kept on disk.', () => [{ value: history.bytes }]);
  metrics.gauge(name('apps'), 'Apps with a log.', () => [{ value: history.apps.length }]);
  metrics.gauge(name('followers'), 'Who follows one.', () => [{ value: history.followers }]);
  for (const [rest, help, key] of [
    ['drain_sent_total', 'Lines sent to a drain.', 'sent'],
    ['drain_failed_total', 'Lines a drain refused for good.', 'failed'],
    ['drain_dropped_total', 'Lines deleted before they could be sent to a drain.', 'skipped'],
  ] as const) {
    metrics.counted(name(rest), help, () =>
      drains.status.map((drain) => ({ labels: { drain: drain.id }, value: drain[key] })),
    );
  }
  metrics.gauge(name('drain_waiting'), 'Lines a drain has yet to get.', () =>
    drains.status.map(({ id, waiting }) => ({ labels: { drain: id }, value: waiting })),
  );
  return (taken) => {
    lines.add({}, taken.lines);
    refused.add({}, taken.refused);
  };
}
