/** Which jobs does an app have? Statuses, placements and what still waits for a place, as people see them. Pure. */
import type { JobStatus, Workload } from '@flynn/scheduler/cell';
import type { PlacedJob } from '../mirrors/cell-view.ts';
import { appIdOf } from '../processes/compile.ts';
import { awayNote } from '@flynn/scheduler/lost-jobs';
import type { SeenStatus } from '@flynn/scheduler/lost-jobs';
import type { Job } from '../model.ts';

export type Cell = {
  workloads: readonly Workload[];
  placed: readonly PlacedJob[];
  statuses: readonly SeenStatus[];
  isHostThere: (hostId: string) => boolean;
  /** What a version of a workload gives its jobs as labels. */
  metaOf: (job: { workloadId: string; version: string }) => JobStatus['meta'];
  /** Of workloads that have jobs without a place: why. */
  reasons: ReadonlyMap<string, string>;
};

/** Whatever state a job is in, its host starts it again unless it said that it is done with it for good. */
export function hasEnded(job: Pick<JobStatus, 'state' | 'isFinal'>): boolean {
  return job.isFinal || job.state === 'lost';
}

export function jobOfStatus(status: JobStatus): Job {
  return {
    id: status.id,
    workloadId: status.workloadId,
    ...describe(status.workloadId, status.meta),
    state: status.state,
    hostId: status.hostId,
    ...(status.address === undefined ? {} : { address: status.address }),
    ...(status.exitCode === undefined ? {} : { exitCode: status.exitCode }),
    ...(status.error === undefined ? {} : { error: status.error }),
    restarts: status.restarts,
    ...(status.lastError === undefined ? {} : { lastError: status.lastError }),
    ...(status.nextStartAt === undefined || status.isFinal ? {} : { nextStartAt: iso(status.nextStartAt) }),
    createdAt: iso(status.createdAt),
    ...(status.startedAt === undefined ? {} : { startedAt: iso(status.startedAt) }),
    ...(status.endedAt === undefined ? {} : { endedAt: iso(status.endedAt) }),
  };
}

function jobOfPlacement({ id, workloadId, hostId, createdAt }: PlacedJob, cell: Cell, meta: JobStatus['meta']): Job {
  return {
    id,
    workloadId,
    ...describe(workloadId, meta),
    state: 'pending',
    hostId,
    ...(cell.isHostThere(hostId) ? {} : { error: awayNote(hostId) }),
    restarts: 0,
    createdAt: iso(createdAt),
  };
}

/** The app's jobs, newest first: those with a status, those placed without one yet, those that wait for a place. */
export function jobsOfApp(appId: string, cell: Cell, options: { all: boolean; nowMs: number }): Job[] {
  const statuses = cell.statuses.filter((status) => appIdOf(status.workloadId) === appId);
  const known = new Set(statuses.map((status) => status.id));
  const placed = cell.placed.filter((job) => appIdOf(job.workloadId) === appId);
  const starting = placed
    .filter((job) => job.desired === 'run' && !known.has(job.id))
    .map((job) => jobOfPlacement(job, cell, cell.metaOf(job)));
  const waiting = cell.workloads
    .filter((workload) => appIdOf(workload.id) === appId)
    .flatMap((workload) =>
      waitingOf(workload, {
        placed,
        statuses,
        meta: cell.metaOf({ workloadId: workload.id, version: workload.version }),
        reason: cell.reasons.get(workload.id),
        nowMs: options.nowMs,
      }),
    );
  const shown = statuses.filter((status) => options.all || !hasEnded(status)).map(jobOfStatus);
  return [...shown, ...starting, ...waiting].sort((a, b) =>
    a.createdAt === b.createdAt ? order(a.id, b.id) : order(b.createdAt, a.createdAt),
  );
}

function waitingOf(
  workload: Workload,
  {
    placed,
    statuses,
    meta,
    reason,
    nowMs,
  }: {
    placed: readonly PlacedJob[];
    statuses: readonly JobStatus[];
    meta: JobStatus['meta'];
    reason: string | undefined;
    nowMs: number;
  },
): Job[] {
  // How many an omni workload wants is the hosts' number, which placement sees to within moments.
  if (workload.kind === 'omni') return [];
  const own = new Set<string>();
  for (const job of placed) if (job.workloadId === workload.id && job.desired === 'run') own.add(job.id);
  for (const status of statuses) {
    if (status.workloadId === workload.id && (workload.kind === 'ephemeral' || !hasEnded(status))) own.add(status.id);
  }
  return Array.from({ length: Math.max(0, workload.count - own.size) }, (_, index) => ({
    id: waitingId(workload.id, index),
    workloadId: workload.id,
    ...describe(workload.id, meta),
    state: 'pending' as const,
    ...(reason === undefined ? {} : { error: reason }),
    restarts: 0,
    createdAt: iso(nowMs),
  }));
}

/** The first has its workload's id, by which a one-off job is known from its start; ids of types have no dot. */
function waitingId(workloadId: string, index: number): string {
  return index === 0 ? workloadId : `${workloadId}.${index + 1}`;
}

/** By job id, or by workload id: of a workload its newest job. */
export function findJob(jobs: readonly Job[], id: string): Job | undefined {
  return jobs.find((job) => job.id === id) ?? jobs.find((job) => job.workloadId === id);
}

function describe(workloadId: string, meta: JobStatus['meta']): Pick<Job, 'appId' | 'releaseId' | 'type'> {
  return { appId: appIdOf(workloadId), releaseId: meta['flynn.release'] ?? '', type: meta['flynn.type'] ?? '' };
}

export function iso(ms: number): string {
  return new Date(ms).toISOString();
}

function order(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
