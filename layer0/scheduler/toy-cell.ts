/** For tests: a cell of plain maps that carries a plan out at once, and hosts in it that do as they are told. */
import type { Homes, HostRecord, JobState, OperatorSettings, Workload } from './cell.ts';
import type { Evaluation } from './evaluation.ts';
import type { Cell, JobFacts, PlacedJob, Versioned } from './cell-view.ts';
import { countsOf } from './commit.ts';
import { isEnded, makeEvaluation } from './evaluations.ts';
import type { Cause } from './evaluations.ts';
import { hostSpecOf } from './feasible.ts';
import { homesAfter } from './homes.ts';
import { HostTable } from './placement/host-table.ts';
import type { Plan, PlanContext } from './plan.ts';
import { schedule } from './schedulers/scheduler.ts';

export class ToyCell implements Cell {
  revision = 1;
  now = 1_000_000;
  readonly hosts = new Map<string, Versioned<HostRecord>>();
  readonly settings = new Map<string, OperatorSettings>();
  readonly workloads = new Map<string, Versioned<Workload>>();
  /** Of all there were, as they are now. */
  readonly records = new Map<string, Evaluation>();
  readonly jobs = new Map<string, PlacedJob>();
  readonly homes = new Map<string, Homes>();
  /** Final statuses of jobs that were released. */
  readonly released: (JobFacts & { workloadId: string })[] = [];
  lostHosts: ReadonlySet<string> = new Set();
  #ids = 0;
  readonly newId = () => `i${String((this.#ids += 1)).padStart(6, '0')}`;

  workload(workloadId: string): Versioned<Workload> | undefined {
    return this.workloads.get(workloadId);
  }

  /** What is in it can be read. */
  isUnsure(): boolean {
    return false;
  }

  unreadable(): undefined {
    return undefined;
  }

  workloadIds(): Iterable<string> {
    return this.workloads.keys();
  }

  omniWorkloadIds(): Iterable<string> {
    return [...this.workloads.values()].flatMap(({ value: { id, kind } }) => (kind === 'omni' ? [id] : []));
  }

  evaluationsOf(workloadId: string): readonly Versioned<Evaluation>[] {
    return [...this.evaluations.values()]
      .filter(({ value }) => value.workloadId === workloadId)
      .sort((a, b) => a.value.createdAt - b.value.createdAt);
  }

  blockedOf(workloadId: string) {
    return this.evaluationsOf(workloadId).flatMap(({ value }) => (value.state === 'blocked' ? value : []));
  }

  get evaluations(): ReadonlyMap<string, Versioned<Evaluation>> {
    const open = [...this.records.values()].filter((one) => !isEnded(one));
    return new Map(open.map((value) => [value.id, this.#versioned(value)]));
  }

  jobsOf(workloadId: string): readonly PlacedJob[] {
    const jobs = [...this.jobs.values()].filter((job) => job.workloadId === workloadId);
    return jobs.sort((a, b) => a.index - b.index || (a.id < b.id ? -1 : 1));
  }

  homesOf(workloadId: string): Homes {
    return this.homes.get(workloadId) ?? {};
  }

  /** Where its jobs are: a host as often as it has one. */
  hostsOf(workloadId: string): string[] {
    return this.jobsOf(workloadId)
      .map(({ hostId }) => hostId)
      .sort();
  }

  endedOf(workloadId: string): readonly JobFacts[] {
    const assigned = this.jobsOf(workloadId).flatMap(({ status }) => (status?.isFinal === true ? [status] : []));
    return [...this.released.filter((one) => one.workloadId === workloadId), ...assigned];
  }

  jobsOn(hostId: string): readonly PlacedJob[] {
    return [...this.jobs.values()].filter((job) => job.hostId === hostId);
  }

  hostsWithJobs(): Iterable<string> {
    return new Set([...this.jobs.values()].map(({ hostId }) => hostId));
  }

  workloadsWithJobs(): Iterable<string> {
    return new Set([...this.jobs.values()].map(({ workloadId }) => workloadId));
  }

  put(...things: (HostRecord | Workload)[]): this {
    this.revision += 1;
    for (const thing of things) {
      if ('capacity' in thing) this.hosts.set(thing.id, this.#versioned(thing));
      else this.workloads.set(thing.id, this.#versioned(thing));
    }
    return this;
  }

  assign(...jobs: PlacedJob[]): this {
    this.revision += 1;
    for (const job of jobs) this.jobs.set(job.id, job);
    return this;
  }

  /** What a host says of one of its jobs. */
  report(jobId: string, state: JobState, isFinal = state === 'done' || state === 'failed'): void {
    const job = this.jobs.get(jobId);
    if (job === undefined) throw new Error(`there is no job ${jobId}`);
    const { createdAt, version } = job;
    const end = isFinal ? { endedAt: this.now } : {};
    this.jobs.set(jobId, { ...job, status: { state, isFinal, createdAt, version, ...end } });
    this.revision += 1;
  }

  /** Every host there takes its jobs one step further; `state` says what becomes of one that is to run. */
  step(state: (job: PlacedJob) => JobState = () => 'running'): number {
    let steps = 0;
    for (const job of this.jobs.values()) {
      if (!this.hosts.has(job.hostId) || job.status?.isFinal === true) continue;
      const next = job.desired === 'stop' ? 'done' : state(job);
      if (next === job.status?.state) continue;
      this.report(job.id, next);
      steps += 1;
    }
    return steps;
  }

  /** As hosts, settings and jobs are now. */
  table(): HostTable {
    const table = new HostTable();
    for (const [hostId, { value }] of this.hosts) table.put(hostSpecOf(value, this.settings.get(hostId)));
    for (const { hostId, demand } of this.jobs.values()) {
      const index = table.indexOf(hostId);
      if (index !== undefined) table.claim(index, demand);
    }
    return table;
  }

  context(more: Partial<PlanContext> = {}): PlanContext {
    const { now, newId, lostHosts } = this;
    return { now, newId, random: () => 0.5, lostHosts, table: this.table(), ...more };
  }

  evaluation(workloadId: string, cause: Cause = 'workload'): Evaluation {
    return makeEvaluation(workloadId, cause, this);
  }

  plan(workloadId: string, cause: Cause = 'workload', more: Partial<PlanContext> = {}): Plan {
    return this.planFor(this.evaluation(workloadId, cause), more);
  }

  planFor(evaluation: Evaluation, more: Partial<PlanContext> = {}): Plan {
    return schedule(evaluation, this, this.context(more));
  }

  /** Plans for the workload and carries it out. */
  run(workloadId: string, cause: Cause = 'workload', more: Partial<PlanContext> = {}): Plan {
    this.now += 10;
    const plan = this.plan(workloadId, cause, more);
    this.apply(plan);
    return plan;
  }

  apply(plan: Plan): void {
    this.revision += 1;
    for (const [hostId, { add, stop, release }] of plan.hosts) {
      for (const { id, status, workloadId } of release) {
        if (!this.jobs.delete(id)) throw new Error(`released twice: ${id}`);
        if (status?.isFinal === true) this.released.push({ ...status, workloadId });
      }
      for (const { id } of stop) {
        const job = this.jobs.get(id);
        if (job === undefined) throw new Error(`there is no job ${id} to stop`);
        this.jobs.set(id, { ...job, desired: 'stop' });
      }
      for (const { jobs, ...group } of add) {
        for (const job of jobs) {
          const { workloadId, version, demand } = group;
          this.jobs.set(job.id, { ...job, workloadId, version, demand, hostId, planId: plan.id, status: undefined });
        }
      }
    }
    for (const outcome of plan.outcomes) {
      const { evaluation, end, created, superseded } = outcome;
      const homes = homesAfter(plan.hosts, evaluation.workloadId, this.homesOf(evaluation.workloadId));
      if (homes !== undefined) this.homes.set(evaluation.workloadId, homes);
      for (const one of [end, ...created, ...superseded]) this.records.set(one.id, one);
      for (const [workloadId, count] of countsOf(outcome)) {
        const workload = this.workloads.get(workloadId)?.value;
        if (workload !== undefined) this.put({ ...workload, count });
      }
    }
  }

  /** The host's record is gone, and it is not waited for. */
  lose(hostId: string): void {
    this.hosts.delete(hostId);
    this.lostHosts = new Set([...this.lostHosts, hostId]);
    this.revision += 1;
  }

  #versioned<T>(value: T): Versioned<T> {
    return { value, modRevision: this.revision, createRevision: this.revision };
  }
}
