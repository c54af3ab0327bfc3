/** Plans on their way into the store: gathered into batches, several in flight on hosts and workloads that do not meet. */
import type { Revision, TransactionResult } from '@flynn/store/store';
import { cellKeys } from './cell.ts';
import type { CellColumns } from './columns/cell-columns.ts';
import { batchOf, countsOf, judge } from './commit.ts';
import { Gathering } from './gathering.ts';
import type { Batch, Fence, Part, Verdict } from './commit.ts';
import type { Ledger } from './ledger.ts';
import type { HostChange, Plan } from './plan.ts';

export type Settled = Readonly<{
  plan: Plan;
  state:
    | 'committed'
    /** Nothing to write: what is asked for is so already. */
    | 'nothing'
    /** Some of it or all was not committed: plan again for the rest. */
    | 'refused'
    /** Never to be committed as it is: `reason`. */
    | 'impossible';
  reason?: string;
  /** The next plan for the workload is made on a cell that has reached this. */
  revision: Revision;
}>;

export type CommitterOptions = Readonly<{
  columns: CellColumns;
  ledger: Ledger;
  newId: () => string;
  fence?: Fence;
  /** How long a plan waits for others to go with it, default 1 ms. */
  lingerMs?: number;
  /** Default 4. */
  maxInFlight?: number;
  /** What the store takes in one transaction at most, default 1,000; less is tried where it refuses that. */
  maxOperations?: number;
}>;

/** After a refusal for its size: so many transactions have to be taken before larger ones are tried again. */
const takenBeforeMore = 32;

type Queued = {
  readonly plan: Plan;
  readonly submittedAt: number;
  readonly left: Map<string, HostChange>;
  /** What is committed of it. */
  readonly done: Map<string, HostChange>;
  /** Lease epochs of its hosts when it was made. */
  readonly epochs: ReadonlyMap<string, Revision>;
  readonly planRevisions: Map<string, Revision>;
  readonly revisions: Map<string, Revision>;
  readonly isAtomic: boolean;
  isInFlight: boolean;
  isRefused: boolean;
  revision: Revision;
};

/**
 * INVARIANTS. A host, and a workload, is in one batch in flight at most. What a plan takes is held in the ledger until its
 * batch is settled. A plan is settled exactly once. Everything is synchronous; time is passed in.
 */
export class Committer {
  readonly counts = { transactions: 0, refusals: 0, conflicts: 0, placements: 0 };
  readonly #options: CommitterOptions;
  readonly #queue = new Set<Queued>();
  readonly #hostsInFlight = new Set<string>();
  readonly #inFlight = new Map<Batch, readonly Queued[]>();
  readonly #settled: Settled[] = [];
  /** At most, and what is tried now. */
  readonly #mostOperations: number;
  #maxOperations: number;
  /** Transactions it took since less was tried, or more again. */
  #taken = 0;
  #isFenced = false;
  #queuedHosts = 0;

  constructor(options: CommitterOptions) {
    this.#options = options;
    this.#mostOperations = options.maxOperations ?? 1_000;
    this.#maxOperations = this.#mostOperations;
  }

  get isFenced(): boolean {
    return this.#isFenced;
  }

  get inFlight(): number {
    return this.#inFlight.size;
  }

  get queued(): number {
    return this.#queue.size;
  }

  /** How many hosts the plans in the queue are about, each counted with every plan. */
  get queuedHosts(): number {
    return this.#queuedHosts;
  }

  /** In the same stretch in which it was planned: nothing may have been folded in between. */
  submit(plan: Plan, now: number): void {
    const { columns, ledger } = this.#options;
    const planRevisions = new Map<string, Revision>();
    for (const { evaluation } of plan.outcomes) {
      planRevisions.set(evaluation.workloadId, columns.planRevisionOf(evaluation.workloadId));
    }
    const left = new Map<string, HostChange>();
    const epochs = new Map<string, Revision>();
    for (const [hostId, change] of plan.hosts) {
      ledger.hold(hostId, change);
      left.set(hostId, change);
      epochs.set(hostId, columns.hosts.get(hostId)?.createRevision ?? 0);
    }
    const isAtomic = plan.isAtomic === true || isBound(plan);
    const revisions = revisionsOf(plan, columns);
    this.#queuedHosts += plan.hosts.size;
    this.#queue.add({
      plan,
      submittedAt: now,
      left,
      done: new Map(),
      epochs,
      planRevisions,
      revisions,
      isAtomic,
      isInFlight: false,
      isRefused: false,
      revision: 0,
    });
  }

  /** When `next` may have something although nothing else happens: the end of a linger. */
  nextAt(now: number): number | undefined {
    for (const { isInFlight, submittedAt } of this.#queue) {
      const at = submittedAt + (this.#options.lingerMs ?? 1);
      if (!isInFlight) return at > now ? at : undefined;
    }
    return undefined;
  }

  /** The next batch to be sent, if there is one; settled by `settle`, `tooLarge` or `giveUp`. */
  next(now: number): Batch | undefined {
    const { lingerMs = 1, maxInFlight = 4, newId, columns, ledger, fence } = this.#options;
    if (this.#inFlight.size >= maxInFlight || this.#isFenced) return undefined;
    const waiting = [...this.#queue].filter(({ isInFlight }) => !isInFlight);
    const [oldest] = waiting;
    if (oldest === undefined || (now < oldest.submittedAt + lingerMs && !this.#isPlenty(waiting))) return undefined;
    const taken = new Map<Queued, Part>();
    const limits = { operations: this.#maxOperations, operationsAlone: this.#mostOperations };
    const gathering = new Gathering(columns, ledger, this.#hostsInFlight, limits);
    for (const queued of waiting) {
      if (taken.size > 0 && !gathering.hasRoomFor(queued.plan)) break;
      const part = this.#take(queued, gathering);
      if (part !== undefined) taken.set(queued, part);
    }
    if (taken.size === 0) return undefined;
    const batch = batchOf(newId(), [...taken.values()], { columns, ledger, ...(fence === undefined ? {} : { fence }) });
    if (batch.transaction.then.length === 0) {
      for (const queued of taken.keys()) this.#finish(queued, 'nothing');
      return this.next(now);
    }
    for (const queued of taken.keys()) queued.isInFlight = true;
    for (const [hostId, changes] of batch.changes) {
      this.#hostsInFlight.add(hostId);
      ledger.send(hostId, batch.id, changes);
    }
    this.#inFlight.set(batch, [...taken.keys()]);
    this.counts.transactions += 1;
    return batch;
  }

  #isPlenty(waiting: readonly Queued[]): boolean {
    let operations = 0;
    for (const { left } of waiting) {
      operations += 2 * left.size;
      if (operations >= this.#maxOperations) return true;
    }
    return false;
  }

  #take(queued: Queued, gathering: Gathering): Part | undefined {
    const { plan, left } = queued;
    const hosts = new Map<string, HostChange>();
    const before = gathering.mark();
    if (gathering.countsSameAs(plan)) return undefined;
    gathering.addOutcomes(plan);
    const how = !queued.isAtomic ? 'apart' : before.operations > 0 ? 'whole' : 'alone';
    for (const [hostId, change] of left) {
      const fit = gathering.tryAdd(hostId, change, queued.epochs.get(hostId) ?? 0, how);
      if (fit === 'stale') this.#refuse(queued, hostId);
      if (fit === 'ok') hosts.set(hostId, change);
    }
    if (queued.isAtomic && hosts.size < plan.hosts.size) {
      const isTooLarge = how === 'alone' && gathering.isFull;
      gathering.restore(before, hosts);
      if (queued.isRefused) this.#finish(queued, 'refused');
      else if (isTooLarge) {
        this.#finish(queued, 'impossible', `it touches ${left.size} hosts: more than one transaction may hold`);
      } else gathering.keepFor(plan);
      return undefined;
    }
    const isLast = hosts.size === left.size && !queued.isRefused;
    if (hosts.size === 0 && !isLast) {
      gathering.restore(before, hosts);
      if (left.size === 0) this.#finish(queued, 'refused');
      return undefined;
    }
    gathering.addCounts(plan);
    const { done, planRevisions, revisions } = queued;
    return { plan, hosts, done, hasOutcomes: isLast, planRevisions, revisions };
  }

  /** The store's answer. */
  settle(batch: Batch, answer: TransactionResult): void {
    if (answer.succeeded) return this.#committed(batch, answer.revision);
    const verdict = judge(batch, answer);
    if ('committedAt' in verdict) return this.#committed(batch, verdict.committedAt);
    this.#refused(batch, verdict);
  }

  /** The store refuses it for its size, whatever it says. */
  tooLarge(batch: Batch, reason: string): void {
    const all = this.#land(batch);
    const operations = batch.transaction.then.length;
    this.#taken = 0;
    const isSmallest = all.length === 1 && (batch.changes.size <= 1 || all.every(({ isAtomic }) => isAtomic));
    if (!isSmallest) {
      this.#maxOperations = Math.max(8, Math.floor(Math.min(this.#maxOperations, operations) / 2));
      return;
    }
    for (const queued of all) this.#finish(queued, 'impossible', reason);
    // It was this one, not the size.
    if (operations <= this.#maxOperations) this.#maxOperations = this.#mostOperations;
  }

  /** What it refused may have been long for another reason than its operations: more of them are tried again in time. */
  #noteTaken(): void {
    this.#taken += 1;
    if (this.#taken < takenBeforeMore) return;
    this.#taken = 0;
    this.#maxOperations = Math.min(this.#mostOperations, 2 * this.#maxOperations);
  }

  /** What became of plans since the last call. */
  takeSettled(): Settled[] {
    return this.#settled.splice(0);
  }

  #committed(batch: Batch, revision: Revision): void {
    const all = this.#land(batch);
    this.#noteTaken();
    const { ledger } = this.#options;
    for (const [hostId, claim] of batch.claims) {
      const changes = batch.changes.get(hostId) ?? [];
      ledger.confirm(hostId, changes, { claim, modRevision: claim === undefined ? 0 : revision, seenAt: revision });
      for (const { add } of changes) for (const { jobs } of add) this.counts.placements += jobs.length;
    }
    for (const queued of all) {
      const part = batch.parts.find(({ plan }) => plan === queued.plan);
      queued.revision = revision;
      for (const hostId of part?.hosts.keys() ?? []) queued.left.delete(hostId);
      if (part !== undefined && part.hosts.size > 0) {
        for (const workloadId of queued.planRevisions.keys()) queued.planRevisions.set(workloadId, revision);
      }
      if (part?.hasOutcomes === false) {
        for (const [hostId, change] of part.hosts) queued.done.set(hostId, change);
        // What it wrote itself is no reason to refuse the rest.
        for (const one of batch.transaction.then) {
          if ('put' in one && queued.revisions.has(one.put)) queued.revisions.set(one.put, revision);
        }
      }
      if (part?.hasOutcomes === true) this.#finish(queued, 'committed');
      else if (queued.left.size === 0) this.#finish(queued, 'refused');
    }
  }

  #refused(batch: Batch, verdict: Verdict): void {
    const all = this.#land(batch);
    this.counts.refusals += 1;
    this.counts.conflicts += verdict.refusedHosts.size + verdict.refusedPlans.size;
    if (verdict.isFenced) this.#isFenced = true;
    for (const [hostId, known] of verdict.claims) this.#options.ledger.observe(hostId, known);
    for (const queued of all) {
      const part = batch.parts.find(({ plan }) => plan === queued.plan);
      const hosts = [...(part?.hosts.keys() ?? [])].filter((hostId) => verdict.refusedHosts.has(hostId));
      if (hosts.length > 0 || verdict.refusedPlans.has(queued.plan)) {
        queued.revision = Math.max(queued.revision, verdict.revision);
      }
      const isLost = verdict.isFenced || verdict.refusedPlans.has(queued.plan);
      if (isLost || (queued.isAtomic && hosts.length > 0)) this.#finish(queued, 'refused');
      else for (const hostId of hosts) this.#refuse(queued, hostId);
      if (queued.isRefused && queued.left.size === 0 && this.#queue.has(queued)) this.#finish(queued, 'refused');
    }
  }

  #land(batch: Batch): readonly Queued[] {
    const all = this.#inFlight.get(batch) ?? [];
    this.#inFlight.delete(batch);
    for (const hostId of batch.claims.keys()) {
      this.#hostsInFlight.delete(hostId);
      this.#options.ledger.land(hostId);
    }
    for (const queued of all) queued.isInFlight = false;
    return all;
  }

  #refuse(queued: Queued, hostId: string): void {
    const change = queued.left.get(hostId);
    if (change === undefined) return;
    queued.left.delete(hostId);
    queued.isRefused = true;
    this.#options.ledger.drop(hostId, change);
  }

  #finish(queued: Queued, state: Settled['state'], reason?: string): void {
    for (const [hostId, change] of queued.left) {
      if (state === 'refused' || state === 'impossible') this.#options.ledger.drop(hostId, change);
    }
    const { plan, revision } = queued;
    this.#queue.delete(queued);
    this.#queuedHosts -= plan.hosts.size;
    this.#settled.push({ plan, state, revision, ...(reason === undefined ? {} : { reason }) });
  }
}

/** What the plan's outcomes go by, as it is now. */
function revisionsOf({ outcomes }: Plan, columns: CellColumns): Map<string, Revision> {
  const revisions = new Map<string, Revision>();
  const note = (id: string) => revisions.set(cellKeys.evaluation(id), columns.evaluations.get(id)?.modRevision ?? 0);
  for (const outcome of outcomes) {
    note(outcome.evaluation.id);
    for (const { id } of outcome.superseded) note(id);
    for (const workloadId of [outcome.evaluation.workloadId, ...countsOf(outcome).keys()]) {
      revisions.set(cellKeys.workload(workloadId), columns.workload(workloadId)?.modRevision ?? 0);
    }
  }
  return revisions;
}

/** As many hosts as one transaction holds for certain. */
const maxBoundHosts = 250;

/** A singleton's old job is let go in the same transaction that places the new one: its host may be back just now. */
function isBound({ hosts }: Plan): boolean {
  if (hosts.size < 2 || hosts.size > maxBoundHosts) return false;
  const changes = [...hosts.values()];
  return (
    changes.some(({ release }) => release.length > 0) && changes.some(({ add }) => add.some((one) => one.singleton))
  );
}
