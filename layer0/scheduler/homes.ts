/** Where are the volumes of a workload's slots? Pure: what plans remember of slots, also of those that have no job now. */
import type { Homes } from './cell.ts';
import type { HostChange } from './plan.ts';

/** Once that is done to these hosts; undefined where nothing is to be remembered. */
export function homesAfter(
  changes: ReadonlyMap<string, HostChange>,
  workloadId: string,
  before: Homes,
): Homes | undefined {
  const homes: Record<string, string> = { ...before };
  for (const [hostId, { add }] of changes) {
    for (const { workloadId: of, demand, jobs } of add) {
      if (of !== workloadId || demand.volumes.length === 0) continue;
      for (const { index } of jobs) homes[index] = hostId;
    }
  }
  return Object.keys(homes).length === 0 ? undefined : homes;
}
