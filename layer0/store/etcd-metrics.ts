/** How long etcd takes to answer, as its clients feel it: elections and reconnects included. */
import type { Metrics } from '@flynn/kit/metrics';
import type { EtcdCall } from './etcd.ts';

/** For `onCall` of a client; one for each `Metrics`. */
export function etcdMetrics(metrics: Metrics): (call: EtcdCall) => void {
  const seconds = metrics.histogram('flynn_etcd_request_duration_seconds', 'How long etcd took to answer, by kind.');
  const failures = metrics.counter('flynn_etcd_request_failures_total', 'Requests etcd did not answer, by kind.');
  return ({ kind, tookMs, isAnswered }) => {
    seconds.observe({ kind }, tookMs / 1_000);
    if (!isAnswered) failures.add({ kind });
  };
}
