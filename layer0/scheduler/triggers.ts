/** Which workloads does a change of the cell concern? */
import type { MirrorChange } from '@flynn/store/mirror';
import type { HostRecord, JobStatus } from './cell.ts';
import type { Cell, CellEntry } from './snapshot.ts';
import type { Cause } from './worklist.ts';

export type Trigger = Readonly<{ workloadId: string; cause: Cause }>;

/** `cell` is the state with the change folded in. */
export function triggersOf({ before, after }: MirrorChange<CellEntry>, cell: Cell): Trigger[] {
  switch (after?.kind) {
    case 'evaluation':
      return after.value.state === 'pending' ? [{ workloadId: after.value.workloadId, cause: after.value.cause }] : [];
    case 'host': {
      const previous = before?.kind === 'host' ? before.value : undefined;
      if (previous !== undefined && isSameHost(previous, after.value)) return [];
      return [...blockedOnes(cell, 'host_joined'), ...omniOnes(cell, 'host_joined')];
    }
    case 'status':
      return statusTriggers(before?.kind === 'status' ? before.value : undefined, after.value, cell);
    case 'claim':
    case undefined:
      return before?.kind === 'claim' && hasShrunk(before, after) ? blockedOnes(cell, 'capacity') : [];
    case 'workload':
    case 'assignment':
      return [];
    default:
      return after satisfies never;
  }
}

/** During an update the next step depends on how the new jobs are; ends are the host's to tell, by an evaluation. */
function statusTriggers(before: JobStatus | undefined, after: JobStatus, cell: Cell): Trigger[] {
  if (before?.state === after.state) return [];
  if (after.state !== 'running' && before?.state !== 'running') return [];
  const workload = cell.workloads.get(after.workloadId)?.value;
  if (workload === undefined || workload.kind === 'ephemeral') return [];
  const isUpdating = cell.jobsOf(workload.id).some(({ job }) => job.version !== workload.version);
  return isUpdating ? [{ workloadId: workload.id, cause: 'health' }] : [];
}

function blockedOnes(cell: Cell, cause: Cause): Trigger[] {
  return [...cell.evaluations.values()]
    .filter(({ value }) => value.state === 'blocked')
    .map(({ value }) => ({ workloadId: value.workloadId, cause }));
}

function omniOnes(cell: Cell, cause: Cause): Trigger[] {
  return [...cell.workloads.values()]
    .filter(({ value }) => value.kind === 'omni')
    .map(({ value }) => ({ workloadId: value.id, cause }));
}

function hasShrunk(before: CellEntry, after: CellEntry | undefined): boolean {
  if (before.kind !== 'claim') return false;
  const jobs = after?.kind === 'claim' ? after.value.jobs : {};
  return Object.keys(before.value.jobs).some((jobId) => !Object.hasOwn(jobs, jobId));
}

function isSameHost(a: HostRecord, b: HostRecord): boolean {
  return (
    a.cordoned === b.cordoned &&
    a.capacity.memoryBytes === b.capacity.memoryBytes &&
    a.capacity.cpuMillis === b.capacity.cpuMillis &&
    JSON.stringify(a.attributes) === JSON.stringify(b.attributes)
  );
}
