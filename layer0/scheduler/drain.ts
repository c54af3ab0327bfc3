/** Which hosts do a workload's jobs have to leave, how fast, and when must they be gone? */
import type { Workload } from './cell.ts';
import type { Cell, PlacedJob } from './cell-view.ts';
import { attributesOf, failedConstraint } from './feasible.ts';

export type Departure = Readonly<{
  /** How many of the workload's jobs may be on their way at once. */
  maxParallel: number;
  /** What is left is stopped now, whether its replacement runs or not. */
  isDue: boolean;
  /** When it will be due. */
  deadlineAt?: number;
  why: 'draining' | 'unsuited';
  /** Unsuited: the constraint that the host does not meet, in words. */
  failed?: string;
}>;

/** Hosts of the jobs that drain, and those whose attributes have changed so that the workload may not be there any more. */
export function departuresOf(
  workload: Workload,
  placed: readonly PlacedJob[],
  cell: Cell,
  now: number,
): ReadonlyMap<string, Departure> {
  const departures = new Map<string, Departure>();
  if (cell.settings.size === 0 && workload.constraints.length === 0) return departures;
  const seen = new Set<string>();
  for (const { hostId } of placed) {
    if (seen.has(hostId)) continue;
    seen.add(hostId);
    const settings = cell.settings.get(hostId);
    const drain = settings?.drain;
    if (drain !== undefined) {
      const { maxParallel, deadlineAt } = drain;
      const isDue = deadlineAt !== undefined && deadlineAt <= now;
      const deadline = deadlineAt === undefined || isDue ? {} : { deadlineAt };
      departures.set(hostId, { maxParallel, isDue, why: 'draining', ...deadline });
      continue;
    }
    const host = cell.hosts.get(hostId)?.value;
    if (host === undefined || cell.isUnsure(hostId)) continue;
    const failed = failedConstraint(hostId, attributesOf(host, settings), workload.constraints);
    if (failed !== undefined) departures.set(hostId, { maxParallel: 1, isDue: false, why: 'unsuited', failed });
  }
  return departures;
}

/** The next time a deadline makes a difference to the workload. */
export function nextDeadline(departures: ReadonlyMap<string, Departure>): number | undefined {
  let next: number | undefined;
  for (const { deadlineAt } of departures.values()) {
    if (deadlineAt !== undefined) next = Math.min(next ?? Infinity, deadlineAt);
  }
  return next;
}

/** Omni jobs serve the others of their host, so on a host that drains they go last. */
export function isLeftToOmni(hostId: string, cell: Cell): boolean {
  return cell.jobsOn(hostId).every(({ workloadId, status }) => {
    if (status?.isFinal === true) return true;
    return cell.workload(workloadId)?.value.kind === 'omni';
  });
}
