/** Cells, and hosts that pretend to run jobs, for this package's tests. */
import type { Entry, Operation, Store } from '@flynn/store/store';
import { cellKeys, cellPrefix, hostRecordSchema, workloadSchema } from './cell.ts';
import type { AssignedJob, HostRecord, JobState, JobStatus, Workload, WorkloadInput } from './cell.ts';
import { evaluationPut } from './evaluations.ts';
import { CellState, decodeCellEntry } from './snapshot.ts';
import type { PlacedJob } from './snapshot.ts';

export const mebibyte = 2 ** 20;

export function hostOf(id: string, more: Partial<HostRecord> = {}): HostRecord {
  return hostRecordSchema.parse({
    id,
    address: '10.0.0.1',
    apiPort: 1113,
    startedAt: 0,
    capacity: { memoryBytes: 1_000 * mebibyte, cpuMillis: 4_000 },
    ...more,
  });
}

type TemplateInput = WorkloadInput['template'];

export function workloadOf(
  more: Partial<Omit<WorkloadInput, 'template'>> & { template?: Partial<TemplateInput> } = {},
): Workload {
  return workloadSchema.parse({
    id: 'web',
    kind: 'service',
    count: 1,
    version: 'v1',
    ...more,
    template: {
      image: { name: 'busybox' },
      resources: { memoryBytes: 100 * mebibyte, cpuMillis: 100 },
      ...more.template,
    },
  });
}

export function placedOf(
  workload: Workload,
  id: string,
  more: { state?: JobState; isFinal?: boolean; endedAt?: number; hostId?: string } & Partial<AssignedJob> = {},
): PlacedJob {
  const { state, isFinal = false, endedAt, hostId = 'h1', ...jobMore } = more;
  const job: AssignedJob = {
    id: `${hostId}-${id}`,
    workloadId: workload.id,
    version: workload.version,
    index: 0,
    desired: 'run',
    template: workload.template,
    createdAt: 0,
    ...jobMore,
  };
  return {
    job,
    hostId,
    planId: 'p',
    status:
      state === undefined
        ? undefined
        : statusOf(job, hostId, state, { isFinal, ...(endedAt === undefined ? {} : { endedAt }) }),
  };
}

export function statusOf(job: AssignedJob, hostId: string, state: JobState, more: Partial<JobStatus> = {}): JobStatus {
  return {
    id: job.id,
    hostId,
    workloadId: job.workloadId,
    version: job.version,
    meta: job.template.meta,
    state,
    isFinal: false,
    restarts: 0,
    createdAt: job.createdAt,
    ...more,
  };
}

/** The cell at this moment. */
export async function readCell(store: Store): Promise<CellState> {
  const { entries } = await store.list(cellPrefix);
  return cellOf(entries);
}

export function cellOf(entries: Iterable<Entry>): CellState {
  const cell = new CellState();
  for (const entry of entries) {
    const key = entry.key.slice(cellPrefix.length);
    cell.fold({ key, after: decodeCellEntry(JSON.parse(entry.value), key, entry) });
  }
  return cell;
}

export function hostPut(host: HostRecord): Operation {
  return { put: cellKeys.host(host.id), value: JSON.stringify(host) };
}

/** What one job's host says next of it; undefined for nothing new. */
export type Behaviour = (job: AssignedJob, status: JobStatus | undefined) => JobState | undefined;

/** Starts, runs, and stops when told to. */
export const wellBehaved: Behaviour = (job, status) => {
  if (job.desired === 'stop') return 'done';
  return status?.state === 'running' ? undefined : 'running';
};

/** Takes every job of one host one step further, like an agent would. Returns how many had a next step. */
export async function stepHost(
  store: Store,
  hostId: string,
  behave: Behaviour,
  context: { now: number; newId: () => string },
): Promise<number> {
  const cell = await readCell(store);
  if (!cell.hosts.has(hostId)) return 0;
  let steps = 0;
  for (const [key, { value: assignment }] of cell.assignments) {
    if (!key.startsWith(`${hostId}/`)) continue;
    for (const job of assignment.jobs) {
      const status = cell.statuses.get(`${hostId}/${job.id}`)?.value;
      const state = status?.isFinal === true ? undefined : behave(job, status);
      if (state === undefined) continue;
      steps += 1;
      const isFinal = state === 'done' || state === 'failed';
      const next = statusOf(job, hostId, state, isFinal ? { isFinal, endedAt: context.now } : {});
      const put: Operation = { put: cellKeys.jobStatus(hostId, job.id), value: JSON.stringify(next) };
      await store.transact({ then: isFinal ? [put, evaluationPut(job.workloadId, 'job_ended', context)] : [put] });
    }
  }
  return steps;
}
