import type { Workload } from '../cell.ts';
import type { Cell } from '../cell-view.ts';
import { departuresOf } from '../drain.ts';
import type { PlanContext } from '../plan.ts';
import type { ReconcileInput } from '../reconcile.ts';

/** What every reconciler reads of the cell. */
export function inputOf(workload: Workload, cell: Cell, context: PlanContext): ReconcileInput {
  const input = baseInputOf(workload.id, cell, context);
  return { ...input, departures: departuresOf(workload, input.placed, cell, context.now) };
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
    now,
  };
}
