/** Which jobs of a type are there now, of all that are scaled by themselves in one pass over the cell. Pure. */
import { reasonsOf, seenStatuses } from '../mirrors/cell-view.ts';
import type { CellView } from '../mirrors/cell-view.ts';
import { hasEnded } from '../jobs/views.ts';

export type TypeJobs = Readonly<{
  /** Healthy, and not told to stop. */
  running: readonly Readonly<{ id: string; hostId: string }>[];
  /** Of hosts that are away: whether these run is not known. */
  uncertain: number;
  /** Have no host, and why not. */
  waiting: number;
  whyWaiting: string | undefined;
}>;

/** By workload; of one that is not there yet, nothing. */
export function jobsOfWorkloads(cell: CellView, ids: ReadonlySet<string>): Map<string, TypeJobs> {
  const leaving = new Set<string>();
  const own = new Map([...ids].map((id) => [id, new Set<string>()]));
  for (const { value } of cell.assignments.snapshot.entries.values()) {
    for (const { workloadId, jobs } of value.groups) {
      for (const { id, desired } of ids.has(workloadId) ? jobs : []) {
        if (desired === 'stop') leaving.add(id);
        else own.get(workloadId)?.add(id);
      }
    }
  }
  const statuses = Map.groupBy(
    seenStatuses(cell, ({ workloadId, isFinal }) => !isFinal && ids.has(workloadId)),
    ({ workloadId }) => workloadId,
  );
  const reasons = reasonsOf(cell);
  const found = new Map<string, TypeJobs>();
  for (const id of ids) {
    const workload = cell.workloads.snapshot.entries.get(id)?.value;
    if (workload === undefined) continue;
    const staying = (statuses.get(id) ?? []).filter((status) => !hasEnded(status) && !leaving.has(status.id));
    const placed = new Set([...(own.get(id) ?? []), ...staying.map((status) => status.id)]);
    found.set(id, {
      running: staying.filter(({ state, isUncertain }) => state === 'running' && !isUncertain),
      uncertain: staying.filter(({ isUncertain }) => isUncertain).length,
      waiting: Math.max(0, workload.count - [...placed].filter((one) => !leaving.has(one)).length),
      whyWaiting: reasons.get(id),
    });
  }
  return found;
}
