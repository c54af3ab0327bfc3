import type { PlanContext } from '../plan.ts';
import type { ReconcileInput } from '../reconcile.ts';
import type { Cell } from '../snapshot.ts';

/** What every reconciler reads of the cell. */
export function inputOf(workloadId: string, cell: Cell, { lostHosts, now }: PlanContext): ReconcileInput {
  return { placed: cell.jobsOf(workloadId), statuses: cell.statusesOf(workloadId), lostHosts, now };
}
