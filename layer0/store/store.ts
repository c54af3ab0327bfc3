/**
 * The Store port: what the control plane needs of etcd, and the contract every driver keeps.
 *
 * Revisions. Every committed transaction raises one store-wide revision. An entry's version is its `modRevision`;
 * compares, snapshots and watches all speak revisions.
 *
 * Consistency. Reads and transactions are linearizable. A transaction is all or nothing, and its operations are seen by
 * a watch in one batch.
 *
 * Watches. `watch(prefix, { after })` delivers every change with a revision above `after` exactly once and in order,
 * through disconnects of any length. If that history was compacted away it ends with `CompactedError`: list again, and
 * watch from the list's revision. If the store is no longer the one this client knew when it asked (restored from a
 * backup, made anew) it ends with `RestoredError`: the same, and revisions may start over.
 *
 * Deadlines. Every call ends within `timeoutMs` of the driver (default 5 s) or when its signal aborts: `timeout`,
 * `unavailable`, `cancelled`. After those a transaction may have been committed, or be committed later; callers make that
 * harmless by comparing revisions. Only before later ones of the same client, though: once a transaction was answered that was
 * sent after the failure was told, the one that failed either is there or never will be.
 *
 * Immutability. What the store hands out is frozen.
 */
import { FlynnError } from '@flynn/kit/errors';

export type Revision = number;

export type Entry = Readonly<{
  key: string;
  /** UTF-8 text, by convention JSON. At most 1 MiB: larger is refused with `invalid`. */
  value: string;
  createRevision: Revision;
  modRevision: Revision;
  /** The lease the entry dies with, if any. */
  lease?: string;
}>;

export type Compare =
  /** The entry's modRevision is exactly this; 0 means there is no entry. */
  | { key: string; modRevision: Revision }
  /** The entry's createRevision is exactly this: "still the same entry, whatever its value". 0 means none. */
  | { key: string; createRevision: Revision };

export type Operation =
  | { put: string; value: string; lease?: string }
  | { delete: string }
  | { deletePrefix: string }
  | { get: string }
  | { list: string };

export type Transaction = Readonly<{
  compare?: readonly Compare[];
  /** Runs when every compare holds (and when there are none). */
  then: readonly Operation[];
  /** Runs when one does not; only `get` and `list`. */
  else?: readonly Operation[];
}>;

export type TransactionResult = Readonly<{
  succeeded: boolean;
  revision: Revision;
  /** The answers of `get` and `list` operations of the branch that ran, in their order. */
  reads: readonly (readonly Entry[])[];
}>;

export type Change =
  | Readonly<{ type: 'put'; entry: Entry }>
  | Readonly<{ type: 'delete'; key: string; modRevision: Revision }>;

/** All changes of one or several consecutive revisions under the watched prefix, in order. `changes` may be empty: progress. */
export type ChangeBatch = Readonly<{ revision: Revision; changes: readonly Change[] }>;

export type Listing = Readonly<{ entries: readonly Entry[]; revision: Revision }>;

/** A lease keeps itself alive until revoked or disposed; `lost` aborts once it is known to have expired. */
export interface Lease extends AsyncDisposable {
  readonly id: string;
  readonly ttlSeconds: number;
  readonly lost: AbortSignal;
  /** On performance.now()'s clock: it has not expired before then. Moves on with every renewal. */
  readonly expiresAtMs: number;
  revoke(): Promise<void>;
}

export type CallOptions = { signal?: AbortSignal };
export type ListOptions = CallOptions & {
  revision?: Revision;
  newest?: number;
  before?: string;
  first?: number;
  after?: string;
  isKeysOnly?: boolean;
};

export interface Store extends AsyncDisposable {
  get(key: string, options?: CallOptions): Promise<Entry | undefined>;
  /**
   * All entries under the prefix at one revision, sorted by key. Large ranges are paged inside, at that revision. With
   * `newest` only the last so many by key, of those below the key `before`: what is written in order is read from its end.
   * With `first` only the first so many, of those above the key `after`: who reads all of a large range page by page takes
   * this one, for it costs the store no more than the page. With `isKeysOnly` all values are empty: who only compares revisions
   * spares everybody the rest.
   */
  list(prefix: string, options?: ListOptions): Promise<Listing>;
  transact(transaction: Transaction, options?: CallOptions): Promise<TransactionResult>;
  /** Ends silently when the signal aborts. */
  watch(prefix: string, options: { after: Revision; signal: AbortSignal }): AsyncIterable<ChangeBatch>;
  grantLease(options: { ttlSeconds: number } & CallOptions): Promise<Lease>;
  /** Drops history up to this revision, its room too where it lies on a disk; watches behind it end with CompactedError. */
  compact(revision: Revision, options?: CallOptions): Promise<void>;
  close(): Promise<void>;
}

/** The store was restored to an earlier state or made anew: what is known of it, its revisions included, is void. */
export class RestoredError extends FlynnError {
  constructor(after: Revision) {
    super('conflict', `the store no longer has the history up to revision ${after}: it was restored; list again`);
    this.name = 'RestoredError';
  }
}

/** The history a watch or a listing asked for no longer exists. */
export class CompactedError extends FlynnError {
  constructor(revision: Revision) {
    super('conflict', `the store's history before revision ${revision} was compacted: list again and watch from there`);
    this.name = 'CompactedError';
  }
}
