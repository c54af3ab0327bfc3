/** What Layer 0 is doing, as the controller sees it: mirrors of the cell's keys. Read only. */
import type { Logger } from '@flynn/kit/log';
import {
  assignmentSchema,
  cellKeys,
  evaluationSchema,
  hostRecordSchema,
  jobStatusSchema,
  workloadSchema,
} from '@flynn/scheduler/cell';
import type { Assignment, AssignedJob, Evaluation, HostRecord, JobStatus, Workload } from '@flynn/scheduler/cell';
import { openMirror } from '@flynn/store/mirror';
import type { Mirror } from '@flynn/store/mirror';
import type { Store } from '@flynn/store/store';

export type PlacedJob = AssignedJob & { hostId: string };

export interface CellView extends AsyncDisposable {
  readonly hosts: Mirror<HostRecord>;
  readonly workloads: Mirror<Workload>;
  readonly evaluations: Mirror<Evaluation>;
  readonly assignments: Mirror<Assignment>;
  readonly statuses: Mirror<JobStatus>;
}

export async function openCellView(options: { store: Store; log: Logger; signal?: AbortSignal }): Promise<CellView> {
  const [hosts, workloads, evaluations, assignments, statuses] = await Promise.all([
    openMirror({ ...options, prefix: cellKeys.hosts, decode: (json) => hostRecordSchema.parse(json) }),
    openMirror({ ...options, prefix: cellKeys.workloads, decode: (json) => workloadSchema.parse(json) }),
    openMirror({ ...options, prefix: cellKeys.evaluations, decode: (json) => evaluationSchema.parse(json) }),
    openMirror({ ...options, prefix: cellKeys.assignments, decode: (json) => assignmentSchema.parse(json) }),
    openMirror({ ...options, prefix: cellKeys.status, decode: (json) => jobStatusSchema.parse(json) }),
  ]);
  return {
    hosts,
    workloads,
    evaluations,
    assignments,
    statuses,
    async [Symbol.asyncDispose]() {
      await Promise.all(
        [hosts, workloads, evaluations, assignments, statuses].map((mirror) => mirror[Symbol.asyncDispose]()),
      );
    },
  };
}

export function valuesOf<T>(mirror: Mirror<T>): T[] {
  return [...mirror.snapshot.entries.values()].map((entry) => entry.value);
}

export function statusesOfApp(cell: CellView, appId: string): JobStatus[] {
  return valuesOf(cell.statuses).filter((status) => status.meta['flynn.app'] === appId);
}

/** Every job some host has been told of, with that host: assignment keys are `<host>/<plan>`. Once told to stop, it is to stop. */
export function placedJobs(cell: CellView): PlacedJob[] {
  const jobs = new Map<string, PlacedJob>();
  for (const [key, { value }] of cell.assignments.snapshot.entries) {
    const [hostId = ''] = key.split('/');
    for (const job of value.jobs) {
      if (job.desired === 'stop' || !jobs.has(job.id)) jobs.set(job.id, { ...job, hostId });
    }
  }
  return [...jobs.values()];
}

/** Calls back, once for each wake, after anything in the cell that jobs' states depend on has changed. */
export function onJobsChange(cell: CellView, listener: () => void): () => void {
  const stops = [
    cell.workloads.onChange(listener),
    cell.evaluations.onChange(listener),
    cell.assignments.onChange(listener),
    cell.statuses.onChange(listener),
  ];
  return () => {
    for (const stop of stops) stop();
  };
}
