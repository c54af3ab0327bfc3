import type { Workload } from '../cell.ts';
import type { Cell, PlacedJob } from '../cell-view.ts';
import { departuresOf } from '../drain.ts';
import { explain } from '../placement/explain.ts';
import type { HostTable } from '../placement/host-table.ts';
import type { PlanContext } from '../plan.ts';
import type { ReconcileInput } from '../reconcile.ts';

/** What every reconciler reads of the cell. */
export function inputOf(workload: Workload, cell: Cell, context: PlanContext): ReconcileInput {
  const input = baseInputOf(workload.id, cell, context);
  const { demand, constraints } = workload;
  const { table, random, now } = context;
  return {
    ...input,
    departures: departuresOf(workload, input.placed, cell, now),
    hasRoomFor: (job) => {
      const same = hostsOf(
        input.placed.filter(({ id }) => id !== job.id),
        table,
      );
      return explain(table, { policy: 'spread', demand, constraints, same, random }).fitting > 0;
    },
  };
}

/** How many of the jobs there are on each host: those that ended have their slots until they are let go. */
function hostsOf(jobs: readonly PlacedJob[], table: HostTable): ReadonlyMap<number, number> {
  const counts = new Map<number, number>();
  for (const { hostId } of jobs) {
    const index = table.indexOf(hostId);
    if (index !== undefined) counts.set(index, (counts.get(index) ?? 0) + 1);
  }
  return counts;
}

/**
 * The same where it matters not which hosts are to be left: an omni workload sees to that host by host, a removed one leaves
 * all.
 */
export function baseInputOf(workloadId: string, cell: Cell, { lostHosts, now }: PlanContext): ReconcileInput {
  return {
    placed: cell.jobsOf(workloadId),
    ended: cell.endedOf(workloadId),
    lostHosts,
    departures: new Map(),
    isThere: (hostId) => cell.hosts.has(hostId),
    homeOf: (index) => cell.homesOf(workloadId)[index],
    hasRoomFor: () => true,
    now,
  };
}
