/** The multi-version data behind the memory driver: pure bookkeeping, without time and without connections. */
import { FlynnError } from '@flynn/kit/errors';
import { CompactedError, RestoredError } from './store.ts';
import type {
  Change,
  ChangeBatch,
  Compare,
  Entry,
  Listing,
  Operation,
  Revision,
  Transaction,
  TransactionResult,
} from './store.ts';
import { checkTransaction } from './check.ts';

type Step = Readonly<{ change: Change; before: Entry | undefined }>;
type Commit = Readonly<{ revision: Revision; steps: readonly Step[] }>;

/** What a backup holds. */
export type DatabaseImage = Readonly<{ revision: Revision; entries: readonly Entry[]; leases: readonly string[] }>;

/** As many revisions as etcd puts into one watch response. */
const batchRevisions = 1000;
/** Older history is compacted by itself, so that a long simulation does not eat the machine. */
const historyLimit = 200_000;

/**
 * INVARIANTS. `sortedKeys` holds exactly the keys of `entries`, sorted. `history` holds every commit from
 * `compactedRevision` on. A commit's steps, undone from the last to the first, give the state before it.
 */
export class MemoryDatabase {
  #revision: Revision = 1;
  #compactedRevision: Revision = 0;
  readonly #entries = new Map<string, Entry>();
  readonly #sortedKeys: string[] = [];
  #history: Commit[] = [];
  #restores = 0;
  readonly #leases = new Map<string, Set<string>>();
  readonly #listeners = new Set<() => void>();

  get revision(): Revision {
    return this.#revision;
  }

  /** Called after every commit, compaction and lease end. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  save(): DatabaseImage {
    const entries = Object.freeze([...this.#entries.values()]);
    return Object.freeze({ revision: this.#revision, entries, leases: Object.freeze([...this.#leases.keys()]) });
  }

  /** As a backup put in place of what there is: earlier revisions, no history, the leases of that time. */
  restore(image: DatabaseImage): void {
    this.#entries.clear();
    this.#leases.clear();
    for (const id of image.leases) this.#leases.set(id, new Set());
    for (const entry of image.entries) {
      this.#entries.set(entry.key, entry);
      if (entry.lease !== undefined) this.#leases.get(entry.lease)?.add(entry.key);
    }
    this.#sortedKeys.splice(0, Infinity, ...[...this.#entries.keys()].sort());
    this.#history = [];
    this.#revision = image.revision;
    this.#compactedRevision = image.revision;
    this.#restores += 1;
    this.#wake();
  }

  /** How often it was restored. */
  get restores(): number {
    return this.#restores;
  }

  list(prefix: string, at: Revision = this.#revision): Listing {
    if (at > this.#revision) {
      throw new FlynnError('invalid', `revision ${at} is in the future: the store is at ${this.#revision}`);
    }
    if (at < this.#compactedRevision) throw new CompactedError(this.#compactedRevision);
    const current = this.#range(prefix);
    if (at === this.#revision) return freezeListing(current, at);
    const past = new Map(current.map((entry) => [entry.key, entry]));
    for (let i = this.#history.length - 1; i >= 0; i -= 1) {
      const commit = this.#history[i];
      if (commit === undefined || commit.revision <= at) break;
      for (const { change, before } of commit.steps.toReversed()) {
        const key = keyOf(change);
        if (!key.startsWith(prefix)) continue;
        if (before === undefined) past.delete(key);
        else past.set(key, before);
      }
    }
    return freezeListing(
      [...past.values()].sort((a, b) => (a.key < b.key ? -1 : 1)),
      at,
    );
  }

  get(key: string): Entry | undefined {
    return this.#entries.get(key);
  }

  transact(transaction: Transaction): TransactionResult {
    checkTransaction(transaction);
    const succeeded = (transaction.compare ?? []).every((compare) => this.#holds(compare));
    const operations = succeeded ? transaction.then : (transaction.else ?? []);
    for (const operation of operations) {
      if ('put' in operation && operation.lease !== undefined && !this.#leases.has(operation.lease)) {
        throw new FlynnError('not_found', `lease ${operation.lease} has expired or was revoked: grant a new one`);
      }
    }
    const steps: Step[] = [];
    const reads: (readonly Entry[])[] = [];
    for (const operation of operations) this.#apply(operation, steps, reads);
    this.#commit(steps);
    return Object.freeze({ succeeded, revision: this.#revision, reads: Object.freeze(reads) });
  }

  /** The changes after a revision; at most a thousand revisions at once, `revision` says how far it got. */
  changesAfter(after: Revision, prefix: string): ChangeBatch {
    if (after > this.#revision) throw new RestoredError(after);
    if (after + 1 < this.#compactedRevision) throw new CompactedError(this.#compactedRevision);
    const from = lowerBound(this.#history.length, (i) => (this.#history[i]?.revision ?? 0) > after);
    const commits = this.#history.slice(from, from + batchRevisions);
    const changes = commits.flatMap((commit) =>
      commit.steps.map((step) => step.change).filter((change) => keyOf(change).startsWith(prefix)),
    );
    const revision = commits.at(-1)?.revision ?? this.#revision;
    return Object.freeze({ revision, changes: Object.freeze(changes) });
  }

  compact(revision: Revision): void {
    if (revision > this.#revision) {
      throw new FlynnError('invalid', `revision ${revision} is in the future: the store is at ${this.#revision}`);
    }
    if (revision <= this.#compactedRevision) return;
    this.#compactedRevision = revision;
    this.#history = this.#history.filter((commit) => commit.revision >= revision);
    this.#wake();
  }

  addLease(id: string): void {
    this.#leases.set(id, new Set());
  }

  hasLease(id: string): boolean {
    return this.#leases.has(id);
  }

  /** Deletes what hangs on the lease, in one revision. */
  endLease(id: string): void {
    const keys = this.#leases.get(id);
    if (keys === undefined) return;
    const steps: Step[] = [];
    for (const key of [...keys].sort()) this.#delete(key, steps);
    this.#leases.delete(id);
    this.#commit(steps);
    this.#wake();
  }

  #holds(compare: Compare): boolean {
    const entry = this.#entries.get(compare.key);
    if ('modRevision' in compare) return (entry?.modRevision ?? 0) === compare.modRevision;
    return (entry?.createRevision ?? 0) === compare.createRevision;
  }

  #apply(operation: Operation, steps: Step[], reads: (readonly Entry[])[]): void {
    if ('put' in operation) this.#put(operation, steps);
    else if ('delete' in operation) this.#delete(operation.delete, steps);
    else if ('deletePrefix' in operation) {
      for (const entry of this.#range(operation.deletePrefix)) this.#delete(entry.key, steps);
    } else if ('get' in operation) {
      const entry = this.#entries.get(operation.get);
      reads.push(Object.freeze(entry === undefined ? [] : [entry]));
    } else reads.push(Object.freeze(this.#range(operation.list)));
  }

  #put(operation: { put: string; value: string; lease?: string }, steps: Step[]): void {
    const key = operation.put;
    const before = this.#entries.get(key);
    const modRevision = this.#revision + 1;
    const entry: Entry = Object.freeze({
      key,
      value: operation.value,
      createRevision: before?.createRevision ?? modRevision,
      modRevision,
      ...(operation.lease === undefined ? {} : { lease: operation.lease }),
    });
    if (before?.lease !== undefined) this.#leases.get(before.lease)?.delete(key);
    if (operation.lease !== undefined) this.#leases.get(operation.lease)?.add(key);
    if (before === undefined) this.#sortedKeys.splice(this.#position(key), 0, key);
    this.#entries.set(key, entry);
    steps.push({ change: Object.freeze({ type: 'put', entry }), before });
  }

  #delete(key: string, steps: Step[]): void {
    const before = this.#entries.get(key);
    if (before === undefined) return;
    if (before.lease !== undefined) this.#leases.get(before.lease)?.delete(key);
    this.#entries.delete(key);
    this.#sortedKeys.splice(this.#position(key), 1);
    steps.push({ change: Object.freeze({ type: 'delete', key, modRevision: this.#revision + 1 }), before });
  }

  #commit(steps: readonly Step[]): void {
    if (steps.length === 0) return;
    this.#revision += 1;
    this.#history.push({ revision: this.#revision, steps });
    // In big strides: dropping one commit at a time would copy the history on every write.
    if (this.#history.length > 2 * historyLimit) this.compact(this.#revision - historyLimit);
    this.#wake();
  }

  #wake(): void {
    for (const listener of this.#listeners) listener();
  }

  #position(key: string): number {
    return lowerBound(this.#sortedKeys.length, (i) => (this.#sortedKeys[i] ?? '') >= key);
  }

  #range(prefix: string): Entry[] {
    const found: Entry[] = [];
    for (let i = this.#position(prefix); i < this.#sortedKeys.length; i += 1) {
      const key = this.#sortedKeys[i] ?? '';
      if (!key.startsWith(prefix)) break;
      const entry = this.#entries.get(key);
      if (entry !== undefined) found.push(entry);
    }
    return found;
  }
}

/** The first index for which the predicate holds; it has to be false up to a point and true from there. */
function lowerBound(length: number, isAtOrAfter: (index: number) => boolean): number {
  let low = 0;
  let high = length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (isAtOrAfter(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

function keyOf(change: Change): string {
  return change.type === 'put' ? change.entry.key : change.key;
}

function freezeListing(entries: Entry[], revision: Revision): Listing {
  return Object.freeze({ entries: Object.freeze(entries), revision });
}
