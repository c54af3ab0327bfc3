import type { Workload } from '../cell.ts';
import type { Cell } from '../cell-view.ts';
import { departuresOf } from '../drain.ts';
import { explain } from '../placement/explain.ts';
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
    hasRoom: () => explain(table, { policy: 'spread', demand, constraints, random }).fitting > 0,
  };
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
    hasRoom: () => true,
    now,
  };
}
