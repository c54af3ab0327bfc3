/** What fits into one batch of what waits: by the store's limits, by the room there is, by what nobody else is at. */
import type { Revision } from '@flynn/store/store';
import type { Claim } from './cell.ts';
import type { CellColumns } from './columns/cell-columns.ts';
import { changeSize, countsOf, outcomesSize, rewrittenBy } from './commit.ts';
import { canHold, claimWith } from './ledger.ts';
import type { Ledger } from './ledger.ts';
import type { HostChange, Plan } from './plan.ts';

/** Etcd refuses requests above 1.5 MiB unless told otherwise. */
const maxBytes = 1024 * 1024;
const shareOfNewHosts = 0.75;

/** How many operations a batch has, and one plan that goes whole or not at all, and with no other. */
type Limits = Readonly<{ operations: number; operationsAlone: number }>;

type Mark = Readonly<{ operations: number; bytes: number; isFull: boolean }>;

/** What a batch does to one host so far. */
type Touched = {
  readonly changes: HostChange[];
  readonly claims: (Claim | undefined)[];
  /** Assignments that are written anew. */
  rewritten: Set<string> | undefined;
};

/** INVARIANTS. What it has taken is still so by the columns and the ledger, as long as nothing is folded in. */
export class Gathering {
  isFull = false;
  readonly #columns: CellColumns;
  readonly #ledger: Ledger;
  readonly #busy: ReadonlySet<string>;
  readonly #limits: Limits;
  readonly #touched = new Map<string, Touched>();
  /** Hosts that an older plan waits for: a newer one that took them would put it off for ever. */
  readonly #kept = new Set<string>();
  /** Workloads whose count it changes. */
  readonly #counted = new Set<string>();
  #operations = 0;
  #bytes = 0;

  constructor(columns: CellColumns, ledger: Ledger, busy: ReadonlySet<string>, limits: Limits) {
    this.#columns = columns;
    this.#ledger = ledger;
    this.#busy = busy;
    this.#limits = limits;
  }

  mark(): Mark {
    return { operations: this.#operations, bytes: this.#bytes, isFull: this.isFull };
  }

  /** Gives back what was taken since the mark: the last change of those hosts. */
  restore(mark: Mark, hosts: ReadonlyMap<string, HostChange>): void {
    this.#operations = mark.operations;
    this.#bytes = mark.bytes;
    this.isFull = mark.isFull;
    for (const hostId of hosts.keys()) {
      const touched = this.#touched.get(hostId);
      if (touched === undefined) continue;
      touched.changes.pop();
      touched.claims.pop();
      touched.rewritten = undefined;
      for (const change of touched.changes) noteRewritten(touched, change);
      if (touched.changes.length === 0) this.#touched.delete(hostId);
    }
  }

  /** They go together or not at all, so none of them to a newer one. */
  keepFor(plan: Plan): void {
    for (const hostId of plan.hosts.keys()) this.#kept.add(hostId);
  }

  /** Whether anything of one more plan may go along. */
  hasRoomFor(plan: Plan): boolean {
    const { operations } = outcomesSize({ plan, hasOutcomes: true });
    return this.#operations + operations <= this.#limits.operations && this.#bytes < maxBytes;
  }

  addOutcomes(plan: Plan): void {
    const { operations, bytes } = outcomesSize({ plan, hasOutcomes: true });
    this.#operations += operations;
    this.#bytes += bytes;
  }

  /** One transaction writes a workload once, and each plan goes by the count that there was. */
  countsSameAs({ outcomes }: Plan): boolean {
    return outcomes.some((outcome) =>
      countsOf(outcome)
        .keys()
        .some((workloadId) => this.#counted.has(workloadId)),
    );
  }

  addCounts({ outcomes }: Plan): void {
    for (const outcome of outcomes) for (const workloadId of countsOf(outcome).keys()) this.#counted.add(workloadId);
  }

  /** `whole`: all of its plan goes along, or none of it. `alone`: that, and no other plan goes along so far. */
  tryAdd(
    hostId: string,
    change: HostChange,
    epoch: Revision,
    how: 'apart' | 'whole' | 'alone',
  ): 'ok' | 'later' | 'stale' {
    if (this.#busy.has(hostId) || this.#kept.has(hostId)) return 'later';
    const touched = this.#touched.get(hostId);
    const known = this.#ledger.claimOf(hostId);
    // Assignments are written anew from the columns: those have to be of the very claim that is compared.
    const isRewriting = change.stop.length + change.release.length > 0;
    if (isRewriting && (this.#columns.claims.get(hostId)?.modRevision ?? 0) !== known.modRevision) {
      this.#kept.add(hostId);
      return 'later';
    }
    const size = changeSize(hostId, change, touched, this.#columns);
    const { operations, operationsAlone } = this.#limits;
    // Some is left for what other plans do to the same hosts: that costs no more keys.
    const shared = touched === undefined && how === 'apart' ? operations * shareOfNewHosts : operations;
    const limit = how === 'alone' ? operationsAlone : shared;
    // What cannot go in parts is for the store to refuse.
    const isTooLong = how !== 'alone' && this.#bytes + size.bytes > maxBytes;
    if ((isTooLong || this.#operations + size.operations > limit) && this.#touched.size > 0) {
      this.isFull = true;
      return 'later';
    }
    const before = touched === undefined ? known.claim : touched.claims.at(-1);
    const claim = claimWith(before, change, '');
    if (!this.#isStillSo(hostId, change, claim, epoch)) return 'stale';
    this.#operations += size.operations;
    this.#bytes += size.bytes;
    const now = touched ?? { changes: [], claims: [], rewritten: undefined };
    if (touched === undefined) this.#touched.set(hostId, now);
    now.changes.push(change);
    now.claims.push(claim);
    if (isRewriting) noteRewritten(now, change);
    return 'ok';
  }

  /** Still the host it was planned for, still room for the claim, and the jobs it is about still there. */
  #isStillSo(hostId: string, change: HostChange, claim: Claim, epoch: Revision): boolean {
    const host = this.#columns.hosts.get(hostId);
    if ((host?.createRevision ?? 0) !== epoch) return false;
    if (change.add.length > 0 && (host === undefined || !canHold(host.value, claim, change))) return false;
    if (change.release.length + change.stop.length === 0) return true;
    const gone = new Set<string>();
    for (const { release } of this.#touched.get(hostId)?.changes ?? []) for (const { id } of release) gone.add(id);
    return [...change.release, ...change.stop].every(({ id }) => !gone.has(id) && this.#columns.isAssigned(hostId, id));
  }
}

function noteRewritten(touched: Touched, change: HostChange): void {
  touched.rewritten ??= new Set();
  for (const planId of rewrittenBy(change).keys()) touched.rewritten.add(planId);
}
