/** Many small changes, each with its own conditions, in few transactions: what comes while one is under way goes with the next. */
import { FlynnError } from '@flynn/kit/errors';
import { mergePieces } from '@flynn/resource/piece';
import type { Piece } from '@flynn/resource/piece';
import type { Compare, Entry, Operation, Revision, Store, TransactionResult } from '@flynn/store/store';

export type Committed = { isCommitted: true; revision: Revision };
/** Entries by the keys of the piece's compares, as they were at the revision; undefined: there is none. */
export type Refused = { isCommitted: false; revision: Revision; entries: ReadonlyMap<string, Entry | undefined> };

type Part = { piece: Piece; keys: readonly string[]; answer: PromiseWithResolvers<Committed | Refused> };

/** etcd takes 128 unless told otherwise; deleting a prefix counts as one. */
const maxOperations = 120;
const maxBatchesAtOnce = 2;

/**
 * INVARIANTS. A piece is committed whole or not at all, and nobody's conditions decide over another's: of a transaction
 * that was refused those whose own hold are sent again. No two pieces that write the same key go together.
 */
export class GroupCommit {
  readonly #store: Pick<Store, 'transact'>;
  readonly #waiting: Part[] = [];
  readonly #keysUnderWay = new Set<string>();
  #batches = 0;
  #isScheduled = false;

  constructor(store: Pick<Store, 'transact'>) {
    this.#store = store;
  }

  /** Throws what the store throws: then it may have been committed. */
  async submit(piece: Piece): Promise<Committed | Refused> {
    const { compare = [], then = [] } = piece;
    if (Math.max(compare.length, then.length) > maxOperations)
      throw new FlynnError('invalid', `a change of ${then.length} entries is too large for one transaction`);
    const part = { piece, keys: then.map(keyOf), answer: Promise.withResolvers<Committed | Refused>() };
    this.#waiting.push(part);
    this.#schedule();
    return part.answer.promise;
  }

  /** What is asked for in the same turn of the event loop goes together. */
  #schedule(): void {
    if (this.#isScheduled || this.#batches >= maxBatchesAtOnce || this.#waiting.length === 0) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      const batch = this.#gather();
      if (batch.length > 0) void this.#send(batch);
    });
  }

  #gather(): Part[] {
    const batch: Part[] = [];
    const later: Part[] = [];
    /** Of those that wait: who came first to a key comes first. */
    const kept = new Set<string>();
    let operations = 0;
    let compares = 0;
    for (const part of this.#waiting.splice(0)) {
      const more = part.piece.then?.length ?? 0;
      const moreCompares = part.piece.compare?.length ?? 0;
      const isFull = operations + more > maxOperations || compares + moreCompares > maxOperations;
      const isFree = part.keys.every((key) => !this.#keysUnderWay.has(key) && !kept.has(key));
      if (isFull || !isFree) {
        for (const key of part.keys) kept.add(key);
        later.push(part);
        continue;
      }
      for (const key of part.keys) this.#keysUnderWay.add(key);
      operations += more;
      compares += moreCompares;
      batch.push(part);
    }
    this.#waiting.push(...later);
    return batch;
  }

  async #send(batch: readonly Part[]): Promise<void> {
    this.#batches += 1;
    const piece = mergePieces(batch.map((part) => part.piece));
    this.#schedule();
    try {
      // Conditions hold nearly always: only when they do not it is worth reading why.
      const { succeeded, revision } = await this.#store.transact({
        compare: piece.compare ?? [],
        then: piece.then ?? [],
      });
      const reasons = succeeded ? undefined : await this.#read(piece.compare ?? []);
      this.#release(batch);
      if (reasons === undefined) for (const { answer } of batch) answer.resolve({ isCommitted: true, revision });
      else this.#refused(batch, reasons);
    } catch (error) {
      this.#release(batch);
      for (const { answer } of batch) answer.reject(error);
    }
    this.#schedule();
  }

  #release(batch: readonly Part[]): void {
    this.#batches -= 1;
    for (const { keys } of batch) for (const key of keys) this.#keysUnderWay.delete(key);
  }

  #read(compares: readonly Compare[]): Promise<TransactionResult> {
    return this.#store.transact({ then: compares.map(({ key }) => ({ get: key })) });
  }

  #refused(batch: readonly Part[], { revision, reads }: TransactionResult): void {
    let at = 0;
    const again: Part[] = [];
    for (const part of batch) {
      const compares = part.piece.compare ?? [];
      const entries = new Map(compares.map(({ key }, index) => [key, reads[at + index]?.[0]]));
      at += compares.length;
      if (compares.every((compare) => holds(compare, entries.get(compare.key)))) again.push(part);
      else part.answer.resolve({ isCommitted: false, revision, entries });
    }
    this.#waiting.unshift(...again);
  }
}

function holds(compare: Compare, entry: Entry | undefined): boolean {
  if ('modRevision' in compare) return (entry?.modRevision ?? 0) === compare.modRevision;
  return (entry?.createRevision ?? 0) === compare.createRevision;
}

function keyOf(operation: Operation): string {
  if ('put' in operation) return operation.put;
  if ('delete' in operation) return operation.delete;
  if ('deletePrefix' in operation) return operation.deletePrefix;
  return 'get' in operation ? operation.get : operation.list;
}
