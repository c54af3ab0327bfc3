/** What Layer 0 is doing, as the controller sees it: mirrors of the cell's keys. Read only. */
import type { Logger } from '@flynn/kit/log';
import {
  assignmentSchema,
  cellKeys,
  claimSchema,
  hostRecordSchema,
  hostSettingsSchema,
  jobStatusSchema,
  workloadSchema,
} from '@flynn/scheduler/cell';
import { jobTemplateSchema } from '@flynn/scheduler/job-template';
import { evaluationSchema } from '@flynn/scheduler/evaluation';
import type {
  Assignment,
  Claim,
  Constraint,
  HostJob,
  HostRecord,
  JobStatus,
  OperatorSettings,
  Workload,
} from '@flynn/scheduler/cell';
import type { JobTemplate } from '@flynn/scheduler/job-template';
import type { Evaluation } from '@flynn/scheduler/evaluation';
import { openMirror } from '@flynn/store/mirror';
import type { Mirror } from '@flynn/store/mirror';
import type { Store } from '@flynn/store/store';
import { appIdOf } from '../processes/compile.ts';
import { ByApp } from './by-app.ts';
import { attributesOf, failedConstraint } from '@flynn/scheduler/feasible';
import { seenStatus } from '@flynn/scheduler/lost-jobs';
import type { SeenStatus } from '@flynn/scheduler/lost-jobs';

export type PlacedJob = Omit<HostJob, 'template' | 'singleton'> & { hostId: string };

/** What is kept of a template: its jobs’ labels, and what they may use. */
export const templateFactsSchema = jobTemplateSchema.pick({ meta: true, limits: true });
export type TemplateFacts = Pick<JobTemplate, 'meta' | 'limits'>;

export interface CellView extends AsyncDisposable {
  readonly hosts: Mirror<HostRecord>;
  readonly settings: Mirror<OperatorSettings>;
  readonly claims: Mirror<Claim>;
  readonly workloads: Mirror<Workload>;
  /** By `<workload>/<version>`. */
  readonly templates: Mirror<TemplateFacts>;
  readonly evaluations: Mirror<Evaluation>;
  readonly assignments: Mirror<Assignment>;
  readonly statuses: Mirror<JobStatus>;
  readonly statusesByApp: Pick<ByApp<JobStatus>, 'of'>;
}

export async function openCellView(options: { store: Store; log: Logger; signal?: AbortSignal }): Promise<CellView> {
  const [hosts, settings, claims, workloads, templates, evaluations, assignments, statuses] = await Promise.all([
    openMirror({ ...options, prefix: cellKeys.hosts, decode: (json) => hostRecordSchema.parse(json) }),
    openMirror({ ...options, prefix: cellKeys.settings, decode: (json) => hostSettingsSchema.parse(json) }),
    openMirror({ ...options, prefix: cellKeys.claims, decode: (json) => claimSchema.parse(json) }),
    openMirror({ ...options, prefix: cellKeys.workloads, decode: (json) => workloadSchema.parse(json) }),
    openMirror({ ...options, prefix: cellKeys.templates, decode: (json) => templateFactsSchema.parse(json) }),
    openMirror({ ...options, prefix: cellKeys.evaluations, decode: (json) => evaluationSchema.parse(json) }),
    openMirror({ ...options, prefix: cellKeys.assignments, decode: (json) => assignmentSchema.parse(json) }),
    openMirror({ ...options, prefix: cellKeys.status, decode: (json) => jobStatusSchema.parse(json) }),
  ]);
  const statusesByApp = new ByApp(statuses, ({ workloadId }) => appIdOf(workloadId));
  return {
    hosts,
    settings,
    claims,
    workloads,
    templates,
    evaluations,
    assignments,
    statuses,
    statusesByApp,
    async [Symbol.asyncDispose]() {
      statusesByApp[Symbol.dispose]();
      await Promise.all(
        [hosts, settings, claims, workloads, templates, evaluations, assignments, statuses].map((mirror) =>
          mirror[Symbol.asyncDispose](),
        ),
      );
    },
  };
}

export function valuesOf<T>(mirror: Mirror<T>): T[] {
  return [...mirror.snapshot.entries.values()].map((entry) => entry.value);
}

/** What is known of jobs, as it is to be read: hosts that are away said it before they went. */
export function seenStatuses(cell: CellView, isWanted: (status: JobStatus) => boolean = () => true): SeenStatus[] {
  return seenOf(cell, valuesOf(cell.statuses).filter(isWanted));
}

/** The same of some of them. */
export function seenOf(cell: CellView, statuses: readonly JobStatus[]): SeenStatus[] {
  const hosts = cell.hosts.snapshot.entries;
  // Asked for only of hosts that are away: mostly there is none.
  const assigned = new Map<string, ReadonlySet<string>>();
  const isAssigned = ({ id, hostId }: JobStatus): boolean => {
    const known = assigned.get(hostId) ?? assignedJobs(cell, hostId);
    assigned.set(hostId, known);
    return known.has(id);
  };
  return statuses.map((status) => {
    const isThere = hosts.has(status.hostId);
    return seenStatus(status, { isThere, isAssigned: !isThere && isAssigned(status) });
  });
}

function assignedJobs(cell: CellView, hostId: string): Set<string> {
  const ids = new Set<string>();
  for (const [key, { value }] of cell.assignments.snapshot.entries) {
    if (!key.startsWith(`${hostId}/`)) continue;
    for (const { jobs } of value.groups) for (const { id } of jobs) ids.add(id);
  }
  return ids;
}

export function statusesOfApp(cell: CellView, appId: string): SeenStatus[] {
  return seenOf(cell, cell.statusesByApp.of(appId));
}

/** But for jobs that their host was told to stop: it says that they run until no router chooses them any more. */
export function stayingStatuses(cell: CellView, appId: string): SeenStatus[] {
  const leaving = new Set<string>();
  for (const { value } of cell.assignments.snapshot.entries.values()) {
    for (const { workloadId, jobs } of value.groups) {
      if (appIdOf(workloadId) !== appId) continue;
      for (const { id, desired } of jobs) if (desired === 'stop') leaving.add(id);
    }
  }
  return statusesOfApp(cell, appId).filter(({ id }) => !leaving.has(id));
}

/**
 * Every job some host has been told of, with that host: assignment keys are `<host>/<plan>`. Once told to stop, it is to stop.
 * `isWanted`: of which workloads; of all there are it is much.
 */
export function placedJobs(
  cell: Pick<CellView, 'assignments'>,
  isWanted: (workloadId: string) => boolean = () => true,
): PlacedJob[] {
  const jobs = new Map<string, PlacedJob>();
  for (const [key, { value }] of cell.assignments.snapshot.entries) {
    const [hostId = ''] = key.split('/');
    for (const { workloadId, version, jobs: ofGroup } of value.groups) {
      if (!isWanted(workloadId)) continue;
      for (const job of ofGroup) {
        if (job.desired === 'stop' || !jobs.has(job.id)) jobs.set(job.id, { ...job, workloadId, version, hostId });
      }
    }
  }
  return [...jobs.values()];
}

/** Of workloads that have jobs without a place: why. What waits says so, else what failed and was not made good since. */
export function reasonsOf(cell: CellView): Map<string, string> {
  const waiting = new Map<string, Evaluation>();
  const ended = new Map<string, Evaluation>();
  for (const evaluation of valuesOf(cell.evaluations)) {
    if (evaluation.state === 'cancelled') continue;
    const isWaiting = isOpen(evaluation);
    if (isWaiting && evaluation.reason === undefined) continue;
    const newest = isWaiting ? waiting : ended;
    const known = newest.get(evaluation.workloadId);
    if (known === undefined || isOlder(known, evaluation)) newest.set(evaluation.workloadId, evaluation);
  }
  const reasons = new Map<string, string>();
  for (const { workloadId, state, reason } of [...ended.values(), ...waiting.values()]) {
    if (state !== 'complete' && reason !== undefined) reasons.set(workloadId, reason);
  }
  return reasons;
}

function isOlder(a: Evaluation, b: Evaluation): boolean {
  return a.createdAt === b.createdAt ? a.id < b.id : a.createdAt < b.createdAt;
}

/** Hosts that are there and meet all of them, whether they take jobs or not. */
export function matchingHosts(
  cell: Pick<CellView, 'hosts' | 'settings'>,
  constraints: readonly Constraint[],
): HostRecord[] {
  const settings = cell.settings.snapshot.entries;
  return valuesOf(cell.hosts).filter(
    (host) => failedConstraint(host.id, attributesOf(host, settings.get(host.id)?.value), constraints) === undefined,
  );
}

/** Whether new jobs may be placed there. */
export function takesJobs(cell: Pick<CellView, 'settings'>, host: HostRecord): boolean {
  const settings = cell.settings.snapshot.entries.get(host.id)?.value;
  return !host.cordoned && settings?.cordoned !== true && settings?.drain === undefined;
}

/** Whether schedulers still have to do something about it. */
export function isOpen({ state }: Evaluation): boolean {
  return state === 'pending' || state === 'blocked';
}

/** Calls back, once for each wake, after anything in the cell that jobs' states depend on has changed. */
export function onJobsChange(cell: CellView, listener: () => void): () => void {
  const stops = [
    cell.hosts.onChange(listener),
    cell.workloads.onChange(listener),
    cell.evaluations.onChange(listener),
    cell.assignments.onChange(listener),
    cell.statuses.onChange(listener),
  ];
  return () => {
    for (const stop of stops) stop();
  };
}
