/** What planning reads of the cell: everything at one revision, whoever keeps it and in whatever form. */
import type { Revision } from '@flynn/store/store';
import type { Demand, Homes, HostRecord, JobState, OperatorSettings, Workload } from './cell.ts';
import type { Evaluation } from './evaluation.ts';

export type Versioned<T> = Readonly<{ value: T; modRevision: Revision; createRevision: Revision }>;

/** What planning knows of a job's status. */
export type JobFacts = Readonly<{
  state: JobState;
  isFinal: boolean;
  /** Milliseconds since the epoch, on the host's clock. */
  createdAt: number;
  startedAt?: number;
  endedAt?: number;
  version: string;
  /** It is the last of its workload that an update or a drain has stop. */
  goesLast?: true | undefined;
}>;

/** One job of a workload as it is assigned, and what its host last said of it. */
export type PlacedJob = Readonly<{
  id: string;
  workloadId: string;
  version: string;
  index: number;
  desired: 'run' | 'stop';
  createdAt: number;
  demand: Demand;
  hostId: string;
  /** The assignment's key is `assignments/<hostId>/<planId>`. */
  planId: string;
  status: JobFacts | undefined;
}>;

/** A live view: what is read in one synchronous stretch is of one revision. Nothing in it is ever changed by a reader. */
export interface Cell {
  readonly revision: Revision;
  /** Hosts that are there. */
  readonly hosts: ReadonlyMap<string, Versioned<HostRecord>>;
  readonly settings: ReadonlyMap<string, OperatorSettings>;
  /** Its record or its settings cannot be read: nothing new goes there, and nothing leaves it for what it may not be. */
  isUnsure(hostId: string): boolean;
  /** Undefined also of one that cannot be read. */
  workload(workloadId: string): Versioned<Workload> | undefined;
  /**
   * The key of something that the workload has and that cannot be read: its record, its last plan, an assignment of jobs of it.
   * Nothing may be concluded from what seems to be missing then. What was assigned to a host that is lost is lost with it, but
   * for jobs whose volumes are there. Of a workload that was removed nothing counts.
   */
  unreadable(workloadId: string, lostHosts?: ReadonlySet<string>): string | undefined;
  workloadIds(): Iterable<string>;
  /** Of workloads that are to have jobs on every host that matches. */
  omniWorkloadIds(): Iterable<string>;
  /** Pending and blocked ones, by their ids. */
  readonly evaluations: ReadonlyMap<string, Versioned<Evaluation>>;
  /** Pending and blocked ones of a workload, oldest first. */
  evaluationsOf(workloadId: string): readonly Versioned<Evaluation>[];
  /** By index, then id. */
  jobsOf(workloadId: string): readonly PlacedJob[];
  /** Final statuses of jobs there are and there were, as long as their hosts keep them. */
  endedOf(workloadId: string): readonly JobFacts[];
  /** By slot the host where a workload with volumes had its job last. */
  homesOf(workloadId: string): Homes;
  jobsOn(hostId: string): readonly PlacedJob[];
  /** Hosts that jobs are assigned to, there or not. */
  hostsWithJobs(): Iterable<string>;
  workloadsWithJobs(): Iterable<string>;
}
