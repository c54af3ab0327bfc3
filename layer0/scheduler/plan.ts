/** Which changes on which hosts carry out what evaluations ask for: what a scheduler proposes, and a commit writes. */
import type { AssignedGroup, AssignedJob, Demand, Workload } from './cell.ts';
import type { Evaluation } from './evaluation.ts';
import type { PlacedJob } from './cell-view.ts';
import type { HostTable } from './placement/host-table.ts';
import type { Slot } from './reconcile.ts';
import type { Schedulers } from './schedulers/scheduler.ts';

/** What a plan does to one host. Released are jobs that ended: they leave claim and assignment. */
export type HostChange = { readonly add: AssignedGroup[]; readonly stop: PlacedJob[]; readonly release: PlacedJob[] };

/** What becomes of one evaluation, in the transaction that carries out (the last part of) its plan. */
export type Outcome = Readonly<{
  /** As it was planned for; the cell need not know it. */
  evaluation: Evaluation;
  /** As it is to be kept. The same state and reason as before means: nothing to write. */
  end: Evaluation;
  /** To be put along: what waits for room, what is looked at again later, what others are to look at. */
  created: readonly Evaluation[];
  /** Earlier blocked ones of the workload that this one takes the place of, as they are to be kept: cancelled. */
  superseded: readonly Evaluation[];
  /** Runs of an ephemeral or gang workload ended: what its count becomes. Compare the workload. */
  remaining?: number;
  /** Runs of other workloads that it lets go: what the counts of these become. Compare them too. */
  remainingOfOthers?: ReadonlyMap<string, number>;
  /** It says what an earlier one of the workload says that is on record: written only where the cell has the evaluation. */
  isKnown?: boolean;
}>;

/** What one scheduler proposes: made on one state of the cell, and good for no other state of the hosts it touches. */
export type Plan = Readonly<{
  id: string;
  hosts: ReadonlyMap<string, HostChange>;
  outcomes: readonly Outcome[];
  /** All of it in one transaction, or nothing: a gang. */
  isAtomic?: boolean;
}>;

export type PlanContext = Readonly<{
  now: number;
  newId: () => string;
  /** From 0 to below 1. */
  random: () => number;
  /** Hosts that are gone and will not be waited for. */
  lostHosts: ReadonlySet<string>;
  /**
   * What is free, by this scheduler's best knowledge. A plan claims what it places and frees what it releases as it goes,
   * so plans made one after the other on one table do not meet. Whoever does not commit one puts the table right.
   */
  table: HostTable;
  /** Hosts that one transaction may touch; a gang that needs more fails. Default 480. */
  maxAtomicHosts?: number;
  /** Default: the built-in ones. */
  schedulers?: Schedulers;
}>;

/** Collects one plan, and keeps the table in step with it. */
export class PlanDraft {
  readonly id: string;
  readonly hosts = new Map<string, HostChange>();
  readonly #context: PlanContext;

  constructor(context: PlanContext) {
    this.id = context.newId();
    this.#context = context;
  }

  /** Its room is free for whoever comes next in this plan. */
  release(job: PlacedJob): void {
    this.changeOf(job.hostId).release.push(job);
    shift(this.#context.table, job.hostId, job.demand, -1);
  }

  /** Takes a release back. */
  keep(job: PlacedJob): void {
    const { release } = this.changeOf(job.hostId);
    release.splice(release.indexOf(job), 1);
    shift(this.#context.table, job.hostId, job.demand, 1);
    this.#dropIfEmpty(job.hostId);
  }

  stop(job: PlacedJob): void {
    this.changeOf(job.hostId).stop.push(job);
  }

  /** Jobs for slots of one workload on one host; the caller has claimed them in the table. */
  add(workload: Workload, hostId: string, slots: readonly Pick<Slot, 'index' | 'newerThan'>[]): void {
    const { now, newId } = this.#context;
    const jobs = slots.map(({ index, newerThan = -Infinity }): AssignedJob => ({
      id: `${hostId}-${newId()}`,
      index,
      desired: 'run',
      createdAt: Math.max(now, newerThan + 1),
    }));
    const { id: workloadId, version, demand, singleton } = workload;
    const groups = this.changeOf(hostId).add;
    const known = groups.find((group) => group.workloadId === workloadId && group.version === version);
    if (known === undefined) groups.push({ workloadId, version, demand, singleton, jobs });
    else known.jobs.push(...jobs);
  }

  /** Takes back everything that was to be added. */
  dropAdditions(): void {
    for (const [hostId, { add }] of this.hosts) {
      for (const { demand, jobs } of add) shift(this.#context.table, hostId, demand, -jobs.length);
      add.length = 0;
      this.#dropIfEmpty(hostId);
    }
  }

  changeOf(hostId: string): HostChange {
    let change = this.hosts.get(hostId);
    if (change === undefined) this.hosts.set(hostId, (change = { add: [], stop: [], release: [] }));
    return change;
  }

  #dropIfEmpty(hostId: string): void {
    const { add, stop, release } = this.changeOf(hostId);
    if (add.length + stop.length + release.length === 0) this.hosts.delete(hostId);
  }
}

/** A host that is not there has no row, and nothing to give. */
function shift(table: HostTable, hostId: string, demand: Demand, jobs: number): void {
  const index = table.indexOf(hostId);
  if (index === undefined || jobs === 0) return;
  if (jobs > 0) table.claim(index, demand, jobs);
  else table.release(index, demand, -jobs);
}

/** Several plans made on the same table, as one. */
export function mergePlans(plans: readonly Plan[], id: string): Plan {
  const hosts = new Map<string, HostChange>();
  for (const plan of plans) {
    for (const [hostId, { add, stop, release }] of plan.hosts) {
      const change = hosts.get(hostId);
      if (change === undefined) {
        hosts.set(hostId, { add: [...add], stop: [...stop], release: [...release] });
        continue;
      }
      change.add.push(...add);
      change.stop.push(...stop);
      change.release.push(...release);
    }
  }
  const outcomes = plans.flatMap((plan) => plan.outcomes);
  return plans.some(({ isAtomic }) => isAtomic === true)
    ? { id, hosts, outcomes, isAtomic: true }
    : { id, hosts, outcomes };
}
