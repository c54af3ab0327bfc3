/** The cell as a planner sees it: everything under the cell's prefix at one revision, indexed by workload. */
import type { MirrorChange } from '@flynn/store/mirror';
import type { Entry, Revision } from '@flynn/store/store';
import {
  assignmentSchema,
  cellKeys,
  cellPrefix,
  claimSchema,
  evaluationSchema,
  hostRecordSchema,
  jobStatusSchema,
  workloadSchema,
} from './cell.ts';
import type { AssignedJob, Assignment, Claim, Evaluation, HostRecord, JobStatus, Workload } from './cell.ts';

export type Versioned<T> = Readonly<{ value: T; modRevision: Revision; createRevision: Revision }>;

/** One job of a workload, the assignment it stands in, and what its host last said of it. */
export type PlacedJob = Readonly<{
  job: AssignedJob;
  hostId: string;
  /** The assignment's key is `assignments/<hostId>/<planId>`. */
  planId: string;
  status: JobStatus | undefined;
}>;

/** Live views: what is read in one synchronous stretch is of one revision. Nothing here is ever changed by a reader. */
export interface Cell {
  readonly hosts: ReadonlyMap<string, Versioned<HostRecord>>;
  readonly claims: ReadonlyMap<string, Versioned<Claim>>;
  readonly workloads: ReadonlyMap<string, Versioned<Workload>>;
  readonly evaluations: ReadonlyMap<string, Versioned<Evaluation>>;
  /** By `<host>/<plan>`. */
  readonly assignments: ReadonlyMap<string, Versioned<Assignment>>;
  /** By `<host>/<job>`. */
  readonly statuses: ReadonlyMap<string, Versioned<JobStatus>>;
  jobsOf(workloadId: string): readonly PlacedJob[];
  /** Of jobs there are and of jobs there were, as long as their hosts keep them. */
  statusesOf(workloadId: string): readonly JobStatus[];
  /** The job's template, wherever it is assigned on the host. */
  findJob(hostId: string, jobId: string): AssignedJob | undefined;
  workloadsWithJobs(): Iterable<string>;
}

export type CellEntry =
  | { kind: 'host'; value: HostRecord; modRevision: Revision; createRevision: Revision }
  | { kind: 'claim'; value: Claim; modRevision: Revision; createRevision: Revision }
  | { kind: 'workload'; value: Workload; modRevision: Revision; createRevision: Revision }
  | { kind: 'evaluation'; value: Evaluation; modRevision: Revision; createRevision: Revision }
  | { kind: 'assignment'; value: Assignment; modRevision: Revision; createRevision: Revision }
  | { kind: 'status'; value: JobStatus; modRevision: Revision; createRevision: Revision };

/** Decodes any entry of the cell; `key` is without the cell's prefix. Throws for what is not the cell's. */
export function decodeCellEntry(json: unknown, key: string, entry: Entry): CellEntry {
  const { modRevision, createRevision } = entry;
  const at = { modRevision, createRevision };
  switch (`${cellPrefix}${key.slice(0, key.indexOf('/') + 1)}`) {
    case cellKeys.hosts:
      return { kind: 'host', value: hostRecordSchema.parse(json), ...at };
    case cellKeys.claims:
      return { kind: 'claim', value: claimSchema.parse(json), ...at };
    case cellKeys.workloads:
      return { kind: 'workload', value: workloadSchema.parse(json), ...at };
    case cellKeys.evaluations:
      return { kind: 'evaluation', value: evaluationSchema.parse(json), ...at };
    case cellKeys.assignments:
      return { kind: 'assignment', value: assignmentSchema.parse(json), ...at };
    case cellKeys.status:
      return { kind: 'status', value: jobStatusSchema.parse(json), ...at };
    default:
      throw new Error(`${key} is not a key of the cell`);
  }
}

/**
 * Folds changes of the cell's prefix into a Cell.
 * INVARIANTS. The indexes say exactly what the maps say: a workload's jobs are those of all assignments.
 */
export class CellState implements Cell {
  readonly hosts = new Map<string, Versioned<HostRecord>>();
  readonly claims = new Map<string, Versioned<Claim>>();
  readonly workloads = new Map<string, Versioned<Workload>>();
  readonly evaluations = new Map<string, Versioned<Evaluation>>();
  readonly assignments = new Map<string, Versioned<Assignment>>();
  readonly statuses = new Map<string, Versioned<JobStatus>>();
  readonly #assignmentsOf = new Map<string, Set<string>>();
  readonly #statusesOf = new Map<string, Set<string>>();
  readonly #assignmentOfJob = new Map<string, string>();

  fold({ key, before, after }: MirrorChange<CellEntry>): void {
    const at = key.indexOf('/');
    const rest = key.slice(at + 1);
    switch ((after ?? before)?.kind) {
      case 'host':
        return replace(this.hosts, rest, after?.kind === 'host' ? after : undefined);
      case 'claim':
        return replace(this.claims, rest, after?.kind === 'claim' ? after : undefined);
      case 'workload':
        return replace(this.workloads, rest, after?.kind === 'workload' ? after : undefined);
      case 'evaluation':
        return replace(this.evaluations, rest, after?.kind === 'evaluation' ? after : undefined);
      case 'assignment':
        return this.#foldAssignment(rest, after?.kind === 'assignment' ? after : undefined);
      case 'status':
        return this.#foldStatus(rest, after?.kind === 'status' ? after : undefined);
      case undefined:
        return undefined;
    }
  }

  jobsOf(workloadId: string): readonly PlacedJob[] {
    const placed: PlacedJob[] = [];
    for (const key of this.#assignmentsOf.get(workloadId) ?? []) {
      const { hostId, rest: planId } = splitHostKey(key);
      for (const job of this.assignments.get(key)?.value.jobs ?? []) {
        if (job.workloadId !== workloadId) continue;
        placed.push({ job, hostId, planId, status: this.statuses.get(`${hostId}/${job.id}`)?.value });
      }
    }
    // Whatever order the watch brought them in, the decisions are the same.
    return placed.sort((a, b) => a.job.index - b.job.index || (a.job.id < b.job.id ? -1 : 1));
  }

  statusesOf(workloadId: string): readonly JobStatus[] {
    const keys = [...(this.#statusesOf.get(workloadId) ?? [])].sort();
    return keys.flatMap((key) => this.statuses.get(key)?.value ?? []);
  }

  findJob(hostId: string, jobId: string): AssignedJob | undefined {
    const key = this.#assignmentOfJob.get(`${hostId}/${jobId}`);
    if (key === undefined) return undefined;
    return this.assignments.get(key)?.value.jobs.find((job) => job.id === jobId);
  }

  workloadsWithJobs(): Iterable<string> {
    return this.#assignmentsOf.keys();
  }

  #foldAssignment(key: string, after: Versioned<Assignment> | undefined): void {
    const { hostId } = splitHostKey(key);
    for (const job of this.assignments.get(key)?.value.jobs ?? []) {
      unindex(this.#assignmentsOf, job.workloadId, key);
      this.#assignmentOfJob.delete(`${hostId}/${job.id}`);
    }
    replace(this.assignments, key, after);
    for (const job of after?.value.jobs ?? []) {
      index(this.#assignmentsOf, job.workloadId, key);
      this.#assignmentOfJob.set(`${hostId}/${job.id}`, key);
    }
  }

  #foldStatus(key: string, after: Versioned<JobStatus> | undefined): void {
    const before = this.statuses.get(key);
    if (before !== undefined) unindex(this.#statusesOf, before.value.workloadId, key);
    replace(this.statuses, key, after);
    if (after !== undefined) index(this.#statusesOf, after.value.workloadId, key);
  }
}

export function splitHostKey(key: string): { hostId: string; rest: string } {
  const at = key.indexOf('/');
  return { hostId: key.slice(0, at), rest: key.slice(at + 1) };
}

function replace<T>(map: Map<string, T>, key: string, value: T | undefined): void {
  if (value === undefined) map.delete(key);
  else map.set(key, value);
}

function index(map: Map<string, Set<string>>, key: string, value: string): void {
  const set = map.get(key);
  if (set === undefined) map.set(key, new Set([value]));
  else set.add(value);
}

function unindex(map: Map<string, Set<string>>, key: string, value: string): void {
  const set = map.get(key);
  set?.delete(value);
  if (set?.size === 0) map.delete(key);
}
