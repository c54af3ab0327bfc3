/** On which hosts does a decision go? */
import type { Workload } from './cell.ts';
import type { Evaluation } from './evaluation.ts';
import type { Cell, PlacedJob } from './cell-view.ts';
import { outcomeOf } from './outcome.ts';
import { chooseMany } from './placement/choose.ts';
import { explain } from './placement/explain.ts';
import type { HostTable } from './placement/host-table.ts';
import { Placement } from './placement/request.ts';
import type { HostShare, PlaceRequest } from './placement/request.ts';
import { PlanDraft } from './plan.ts';
import type { Plan, PlanContext } from './plan.ts';
import { endedVictims, findVictims, mayPreempt, reservationMs, reservedJobs } from './preemption.ts';
import type { Decision, Slot } from './reconcile.ts';
import { countAfter, isCounted } from './runs.ts';
import { isExclusive } from './slots.ts';

/** Hosts for up to `count` jobs, each host once, as many as fit. Claims nothing. */
export type Choose = (table: HostTable, request: PlaceRequest, count: number) => readonly HostShare[];

export type PlaceOptions = Readonly<{
  evaluation: Evaluation;
  /** Undefined: the workload is gone, and nothing is placed. */
  workload: Workload | undefined;
  decision: Decision;
  policy: PlaceRequest['policy'];
  /** Default: by the policy. */
  choose?: Choose;
  /** All slots or none, in one transaction. */
  isAtomic?: boolean;
}>;

const defaultAtomicHosts = 480;

/** Makes the plan, and takes what it places and gives what it releases in the context's table. */
export function makePlan(options: PlaceOptions, cell: Cell, context: PlanContext): Plan {
  const { evaluation, workload, isAtomic = false } = options;
  const decision = workload === undefined ? options.decision : sparing(workload, options.decision, cell, context.now);
  const draft = new PlanDraft(context);
  for (const one of decision.release) draft.release(one);
  for (const one of decision.stop) draft.stop(one);
  const filled =
    workload === undefined || decision.place.length === 0
      ? nothingLeft
      : new Filling(draft, workload, { ...options, decision }, cell, context).run();

  let held = 0;
  if (decision.held !== undefined) for (const jobs of decision.held.values()) held += jobs;
  const kept = cell.jobsOf(evaluation.workloadId).length - options.decision.release.length - held;
  const { waiting, obstacles, impossible, evaluations, counts } = filled;
  const result = { placed: kept + decision.place.length - waiting, waiting: waiting + held, obstacles };
  const failure = impossible === undefined ? {} : { impossible };
  const outcome = outcomeOf(evaluation, workload, decision, { ...result, ...failure }, { cell, plan: context });
  const created = [...outcome.created, ...evaluations];
  const others = counts.size === 0 ? {} : { remainingOfOthers: counts };
  const plan: Plan = { id: draft.id, hosts: draft.hosts, outcomes: [{ ...outcome, created, ...others }] };
  return isAtomic ? { ...plan, isAtomic } : plan;
}

/** Without letting go of the room that was made for another: looked at again when it is anybody's. */
function sparing(workload: Workload, decision: Decision, cell: Cell, now: number): Decision {
  const reserved = reservedJobs(workload, decision.release, cell, now);
  if (reserved.length === 0) return decision;
  const until = now + reservationMs;
  const retryAt = Math.min(decision.retryAt ?? until, until);
  const release = decision.release.filter((job) => !reserved.includes(job));
  if (decision.remaining === undefined || !isCounted(workload)) return { ...decision, release, retryAt };
  const remaining = countAfter(workload, cell.jobsOf(workload.id).length, release.length);
  return { ...decision, release, retryAt, remaining };
}

type Filled = Readonly<{
  /** Slots of the decision that got no host. */
  waiting: number;
  obstacles: Readonly<Record<string, number>>;
  impossible?: string;
  /** For workloads whose jobs have to make room. */
  evaluations: readonly Evaluation[];
  /** Of workloads whose runs it let go, what they become. */
  counts: ReadonlyMap<string, number>;
}>;

const nothingLeft: Filled = { waiting: 0, obstacles: {}, evaluations: [], counts: new Map() };

/** One decision's slots on their way to hosts. */
class Filling {
  readonly #draft: PlanDraft;
  readonly #workload: Workload;
  readonly #options: PlaceOptions;
  readonly #cell: Cell;
  readonly #context: PlanContext;
  /** Jobs that stay, by host, those placed here among them: what spreading counts. */
  readonly #same: Map<number, number>;
  /** Jobs of others that are let go. */
  readonly #ended: PlacedJob[] = [];

  constructor(draft: PlanDraft, workload: Workload, options: PlaceOptions, cell: Cell, context: PlanContext) {
    this.#draft = draft;
    this.#workload = workload;
    this.#options = options;
    this.#cell = cell;
    this.#context = context;
    this.#same = stayingJobs(workload, options.decision, cell, context.table);
  }

  run(): Filled {
    const { place } = this.#options.decision;
    const obstacles = new Map<string, number>();
    let unplaced: Slot[];
    if (place.every(({ hostId, homeId }) => hostId === undefined && homeId === undefined)) {
      const placed = this.#placeFree(place);
      if (placed === place.length) return this.#filled(nothingLeft);
      unplaced = place.slice(placed);
    } else {
      const bound = place.filter(({ hostId }) => hostId !== undefined);
      const free = this.#placeHome(place.filter(({ hostId }) => hostId === undefined));
      unplaced = [...this.#placeBound(bound, obstacles), ...free.slice(this.#placeFree(free))];
    }
    let evaluations: readonly Evaluation[] = [];
    if (unplaced.length > 0 && mayPreempt(this.#workload)) {
      unplaced = this.#takeEnded(unplaced);
      const victims = findVictims(this.#workload, unplaced, this.#request(), this.#cell, this.#context, this.#draft);
      for (const victim of victims.stop) this.#draft.stop(victim);
      ({ evaluations } = victims);
    }
    if (unplaced.some(({ hostId }) => hostId === undefined)) {
      // All slots that may go anywhere find the same.
      const { obstacles: found } = explain(this.#context.table, this.#request());
      for (const [why, hosts] of Object.entries(found)) obstacles.set(why, hosts + (obstacles.get(why) ?? 0));
    }
    const counts = this.#countsOfOthers();
    return this.#filled({ waiting: unplaced.length, obstacles: Object.fromEntries(obstacles), evaluations, counts });
  }

  #filled(filled: Filled): Filled {
    return this.#options.isAtomic === true ? this.#allOrNothing(filled) : filled;
  }

  #request(): PlaceRequest {
    const { demand, constraints, spread } = this.#workload;
    const { decision, policy } = this.#options;
    const penalties = penaltiesOf(decision, this.#context.table);
    return {
      policy,
      demand,
      constraints,
      same: this.#same,
      random: this.#context.random,
      ...(policy === 'spread' ? { spread } : {}),
      ...(penalties === undefined ? {} : { penalties }),
    };
  }

  /** Returns how many of the slots, from the first on, have a host now. */
  #placeFree(slots: readonly Slot[]): number {
    if (slots.length === 0) return 0;
    let done = 0;
    for (const { index, count } of (this.#options.choose ?? chooseMany)(
      this.#context.table,
      this.#request(),
      slots.length,
    )) {
      this.#take(index, slots.slice(done, done + count));
      done += count;
    }
    return done;
  }

  /** Returns those that have no host yet: none had them before, or that one does not take them. */
  #placeHome(slots: readonly Slot[]): Slot[] {
    return slots.filter((slot) => {
      const index = slot.homeId === undefined ? undefined : this.#context.table.indexOf(slot.homeId);
      if (index === undefined) return true;
      const obstacle = new Placement(this.#context.table, this.#request()).obstacle(index);
      if (obstacle === undefined) this.#take(index, [slot]);
      return obstacle !== undefined;
    });
  }

  /** Returns those that have none. */
  #placeBound(slots: readonly Slot[], obstacles: Map<string, number>): Slot[] {
    if (slots.length === 0) return [];
    const { table } = this.#context;
    for (const { after } of slots) if (after !== undefined) this.#keep(after);
    const checks = new Placement(table, this.#request());
    return slots.filter((slot) => {
      const index = slot.hostId === undefined ? undefined : table.indexOf(slot.hostId);
      if (index === undefined) return true;
      const obstacle = this.#tryOn(index, slot, checks);
      if (obstacle !== undefined) obstacles.set(obstacle, 1 + (obstacles.get(obstacle) ?? 0));
      return obstacle !== undefined;
    });
  }

  /** What keeps the slot from the host, or it has a job there now. The room of the job that it goes after is for it alone. */
  #tryOn(index: number, slot: Slot, checks: Placement): string | undefined {
    const { after } = slot;
    if (after !== undefined) this.#letGo(after);
    // A cordon keeps new jobs away, not one from its own data.
    const obstacle = after === undefined ? checks.obstacle(index) : checks.shortage(index);
    if (obstacle === undefined) {
      this.#take(index, [slot]);
      checks.take(index, 1);
    } else if (after !== undefined) this.#keep(after);
    return obstacle;
  }

  #letGo(own: PlacedJob): void {
    this.#draft.release(own);
    this.#count(own, -1);
  }

  #keep(own: PlacedJob): void {
    this.#draft.keep(own);
    this.#count(own, 1);
  }

  #count({ hostId }: PlacedJob, jobs: number): void {
    const index = this.#context.table.indexOf(hostId);
    if (index !== undefined) this.#same.set(index, (this.#same.get(index) ?? 0) + jobs);
  }

  /** Jobs of others that were told to stop and ended still hold their room: it was freed for the likes of this one. */
  #takeEnded(slots: readonly Slot[]): Slot[] {
    const { table } = this.#context;
    const checks = new Placement(table, this.#request());
    let left = [...slots];
    for (const { hostId, jobs } of endedVictims(this.#workload, this.#cell)) {
      const index = table.indexOf(hostId);
      if (left.length === 0 || index === undefined) continue;
      for (const job of jobs) this.#draft.release(job);
      const before = left.length;
      left = left.filter((slot) => {
        const isElsewhere = slot.hostId !== undefined && slot.hostId !== hostId;
        return isElsewhere || this.#tryOn(index, slot, checks) !== undefined;
      });
      for (const job of jobs) {
        if (left.length === before) this.#draft.keep(job);
        else this.#ended.push(job);
      }
    }
    return left;
  }

  #countsOfOthers(): ReadonlyMap<string, number> {
    const counts = new Map<string, number>();
    for (const [workloadId, ended] of Map.groupBy(this.#ended, (job) => job.workloadId)) {
      const workload = this.#cell.workload(workloadId)?.value;
      if (workload === undefined || !isCounted(workload)) continue;
      counts.set(workloadId, countAfter(workload, this.#cell.jobsOf(workloadId).length, ended.length));
    }
    return counts;
  }

  #take(index: number, slots: readonly Slot[]): void {
    const { table } = this.#context;
    const hostId = table.idOf(index);
    if (hostId === undefined || slots.length === 0) return;
    table.claim(index, this.#workload.demand, slots.length);
    this.#same.set(index, (this.#same.get(index) ?? 0) + slots.length);
    this.#draft.add(this.#workload, hostId, slots);
  }

  #allOrNothing(filled: Filled): Filled {
    const { decision } = this.#options;
    const hosts = [...this.#draft.hosts.values()].filter(({ add }) => add.length > 0).length;
    const most = this.#context.maxAtomicHosts ?? defaultAtomicHosts;
    if (filled.waiting === 0 && hosts <= most) return filled;
    this.#draft.dropAdditions();
    // Their room is to be taken with that of the others: let go now it would be anybody's.
    for (const job of this.#ended) this.#draft.keep(job);
    const none = { ...filled, waiting: decision.place.length, counts: nothingLeft.counts };
    if (hosts <= most) return none;
    return { ...none, impossible: `needs ${hosts} hosts at once, and one transaction holds ${most}` };
  }
}

/**
 * The old version makes room anyway, as does what has to leave its host: spreading is about the jobs that stay. Slots that may have
 * one job only stay where they are over versions, and what is to stop has its volumes until it ended: no other begins beside it.
 */
function stayingJobs(workload: Workload, decision: Decision, cell: Cell, table: HostTable): Map<number, number> {
  const same = new Map<number, number>();
  const jobs = cell.jobsOf(workload.id);
  if (jobs.length === 0) return same;
  const { release, stop, leaving: replaced = [] } = decision;
  const isInPlace = isExclusive(workload);
  const leaving = new Set((isInPlace ? release : [...release, ...stop, ...replaced]).map(({ id }) => id));
  for (const job of jobs) {
    if (leaving.has(job.id)) continue;
    if (!isInPlace && (job.desired === 'stop' || job.version !== workload.version)) continue;
    const index = table.indexOf(job.hostId);
    if (index !== undefined) same.set(index, (same.get(index) ?? 0) + 1);
  }
  return same;
}

/** Hosts where a job that is to be replaced has just failed, or had to go. */
function penaltiesOf({ release }: Decision, table: HostTable): ReadonlyMap<number, number> | undefined {
  let penalties: Map<number, number> | undefined;
  for (const { hostId, desired, status } of release) {
    const index = table.indexOf(hostId);
    const hasFailed = status?.state === 'failed' || status?.state === 'crashed';
    if (index === undefined || !(hasFailed || desired === 'stop')) continue;
    penalties ??= new Map();
    penalties.set(index, (penalties.get(index) ?? 0) + 1);
  }
  return penalties;
}
