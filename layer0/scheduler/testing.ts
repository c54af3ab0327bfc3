/** Cells, and hosts that pretend to run jobs, for this package's tests. */
import { FlynnError } from '@flynn/kit/errors';
import type { Entry, Operation, Store } from '@flynn/store/store';
import { cellKeys, cellPrefix, hostRecordSchema, workloadInputSchema } from './cell.ts';
import type { HostRecord, JobState, JobStatus, Workload, WorkloadInput } from './cell.ts';
import type { JobFacts, PlacedJob } from './cell-view.ts';
import { CellColumns } from './columns/cell-columns.ts';
import { demandOf, evaluationPut } from './evaluations.ts';

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
type InputMore = Partial<Omit<WorkloadInput, 'template'>> & { template?: Partial<TemplateInput> };

/** As its writers give it to `workloadChange`. */
export function workloadInputOf(more: InputMore = {}): WorkloadInput {
  return {
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
  };
}

/** As planning reads it. */
export function workloadOf(more: InputMore = {}): Workload {
  const { template, ...rest } = workloadInputSchema.parse(workloadInputOf(more));
  return { ...rest, demand: demandOf(rest.id, template) };
}

export function placedOf(
  workload: Workload,
  id: string,
  more: { state?: JobState } & Partial<Pick<JobFacts, 'isFinal' | 'endedAt' | 'goesLast'>> &
    Partial<Omit<PlacedJob, 'status'>> = {},
): PlacedJob {
  const { state, isFinal = false, endedAt, goesLast, ...rest } = more;
  const hostId = rest.hostId ?? 'h1';
  const job = {
    id: `${hostId}-${id}`,
    workloadId: workload.id,
    version: workload.version,
    index: 0,
    desired: 'run' as const,
    createdAt: 0,
    demand: workload.demand,
    hostId,
    planId: 'p',
    ...rest,
  };
  if (state === undefined) return { ...job, status: undefined };
  const { createdAt, version } = job;
  const seen = { ...(endedAt === undefined ? {} : { endedAt }), ...(goesLast === undefined ? {} : { goesLast }) };
  return { ...job, status: { state, isFinal, createdAt, version, ...seen } };
}

export function statusOf(job: PlacedJob, state: JobState, more: Partial<JobStatus> = {}): JobStatus {
  const { id, hostId, workloadId, version, createdAt } = job;
  return { id, hostId, workloadId, version, meta: {}, state, isFinal: false, restarts: 0, createdAt, ...more };
}

/** The cell at this moment. */
export async function readCell(store: Store): Promise<CellColumns> {
  const { entries, revision } = await store.list(cellPrefix);
  return cellOf(entries, revision);
}

export function cellOf(entries: Iterable<Entry>, revision = 0): CellColumns {
  const cell = new CellColumns({
    onFault(key, error) {
      throw new FlynnError('internal', `${key} does not decode`, { cause: error });
    },
  });
  for (const entry of entries) cell.fold({ type: 'put', entry });
  cell.advance(revision);
  return cell;
}

export function hostPut(host: HostRecord): Operation {
  return { put: cellKeys.host(host.id), value: JSON.stringify(host) };
}

/** What one job's host says next of it; undefined for nothing new. */
export type Behaviour = (job: PlacedJob) => JobState | undefined;

/** Starts, runs, and stops when told to. */
export const wellBehaved: Behaviour = ({ desired, status }) => {
  if (desired === 'stop') return 'done';
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
  for (const job of cell.jobsOn(hostId)) {
    const state = job.status?.isFinal === true ? undefined : behave(job);
    if (state === undefined) continue;
    steps += 1;
    const isFinal = state === 'done' || state === 'failed';
    const next = statusOf(job, state, isFinal ? { isFinal, endedAt: context.now } : {});
    const put: Operation = { put: cellKeys.jobStatus(hostId, job.id), value: JSON.stringify(next) };
    await store.transact({ then: isFinal ? [put, evaluationPut(job.workloadId, 'job_ended', context)] : [put] });
  }
  return steps;
}
