/** For tests of pre-emption: a host that is full, and who has to go. */
import type { Workload } from './cell.ts';
import { hostOf, mebibyte, workloadOf } from './testing.ts';
import { ToyCell } from './toy-cell.ts';

export const sized = (id: string, megabytes: number, more: Partial<Workload> = {}): Workload => ({
  ...workloadOf({ id, template: { resources: { memoryBytes: megabytes * mebibyte, cpuMillis: 0 } } }),
  ...more,
});

/** On one host, all of them running. */
export function fullCell(...workloads: Workload[]): ToyCell {
  const cell = new ToyCell().put(hostOf('h1'), ...workloads);
  for (const { id } of workloads) cell.run(id);
  cell.step();
  return cell;
}

export const stopped = (cell: ToyCell) =>
  [...cell.jobs.values()].filter(({ desired }) => desired === 'stop').map(({ workloadId }) => workloadId);
