/** What was wrong at the last look, as figures: something to be woken by. */
import type { Metrics } from '@flynn/kit/metrics';
import { severities } from './finding.ts';
import type { Finding } from './finding.ts';

/** How many of each severity, by check; a severity of which there is none is told as 0. */
export function findingMetrics(metrics: Metrics, name: string, findings: () => readonly Finding[]): void {
  metrics.gauge(name, 'What is wrong, by severity and check: flynn doctor tells what.', () => {
    const all = findings();
    const none = severities.filter((severity) => all.every((one) => one.severity !== severity));
    const groups = Map.groupBy(all, ({ severity, check }) => `${severity} ${check}`);
    return [
      ...none.map((severity) => ({ labels: { severity, check: 'any' }, value: 0 })),
      ...[...groups.values()].flatMap(([first, ...more]) =>
        first === undefined
          ? []
          : [{ labels: { severity: first.severity, check: first.check }, value: 1 + more.length }],
      ),
    ];
  });
}
