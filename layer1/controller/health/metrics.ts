/** What the controller knows of the cluster, as figures: read from its mirrors when somebody asks. */
import type { Unknown } from '@flynn/host-agent/doctor/finding';
import { findingMetrics } from '@flynn/host-agent/doctor/metrics';
import type { Metrics, Sample } from '@flynn/kit/metrics';
import { seenStatuses, valuesOf } from '../mirrors/cell-view.ts';
import type { Deps } from '../deps.ts';
import type { HealthWatch } from './health.ts';

/** Every process that serves the API tells the same: take the largest, not the sum. */
export function clusterMetrics(
  metrics: Metrics,
  { cell, operations, deployments, runners }: Pick<Deps, 'cell' | 'operations' | 'deployments' | 'runners'>,
  health: Pick<HealthWatch, 'last'>,
): void {
  const name = (rest: string) => `flynn_cluster_${rest}`;
  const gauge = (rest: string, help: string, read: () => Sample[]) => metrics.gauge(name(rest), help, read);
  gauge('hosts', 'Hosts in the cell.', () => [{ value: cell.hosts.snapshot.entries.size }]);
  gauge('workloads', 'Workloads.', () => [{ value: cell.workloads.snapshot.entries.size }]);
  gauge('jobs', 'Jobs by state.', () => counted(seenStatuses(cell), ({ state }) => ({ state })));
  gauge('evaluations', 'Evaluations of the last hour, by state.', () =>
    counted(valuesOf(cell.evaluations), ({ state }) => ({ state })),
  );
  gauge('operations', 'Operations under way, by kind and state.', () =>
    counted(valuesOf(operations), ({ spec, status }) => ({ kind: spec.kind, state: status.state })),
  );
  gauge('deployments', 'Deployments kept, by state.', () =>
    counted(valuesOf(deployments), ({ status }) => ({ state: status.state })),
  );
  gauge('runners', 'Runners by state.', () => counted(valuesOf(runners), ({ status }) => ({ state: status.state })));
  for (const [rest, help, read] of [
    ['memory_bytes', 'What hosts have for jobs.', () => total(valuesOf(cell.hosts), (one) => one.capacity.memoryBytes)],
    ['claimed_memory_bytes', 'Set aside for jobs.', () => total(valuesOf(cell.claims), (one) => one.memoryBytes)],
    ['cpu_millis', 'What hosts have for jobs.', () => total(valuesOf(cell.hosts), (one) => one.capacity.cpuMillis)],
    ['claimed_cpu_millis', 'Set aside for jobs.', () => total(valuesOf(cell.claims), (one) => one.cpuMillis)],
  ] as const) {
    gauge(rest, help, () => [{ value: read() }]);
  }
  gauge('component_wanted', 'Instances wanted of each part of the platform.', () =>
    (health.last?.components ?? []).map(({ name: component, wanted }) => ({ labels: { component }, value: wanted })),
  );
  gauge('component_healthy', 'Instances that are healthy.', () =>
    (health.last?.components ?? []).map(({ name: component, healthy }) => ({ labels: { component }, value: healthy })),
  );
  findingMetrics(metrics, name('findings'), () => health.last?.findings ?? []);
  gauge('unknown', 'What could not be looked at, by check: flynn doctor tells why.', () =>
    unknownSamples(health.last?.unknown),
  );
  gauge('checked_seconds', 'When the parts and findings were last looked at.', () =>
    health.last === undefined ? [] : [{ value: Date.parse(health.last.checkedAt) / 1_000 }],
  );
}

/** `any`: there is none, of any check. */
function unknownSamples(all: readonly Unknown[] | undefined): Sample[] {
  if (all?.length === 0) return [{ labels: { check: 'any' }, value: 0 }];
  return counted(all ?? [], ({ check }) => ({ check }));
}

function counted<T>(all: readonly T[], labelsOf: (one: T) => Record<string, string>): Sample[] {
  const groups = Map.groupBy(all, (one) => JSON.stringify(labelsOf(one)));
  return [...groups.values()].flatMap(([first, ...more]) =>
    first === undefined ? [] : [{ labels: labelsOf(first), value: 1 + more.length }],
  );
}

function total<T>(all: readonly T[], of: (one: T) => number): number {
  return all.reduce((sum, one) => sum + of(one), 0);
}
