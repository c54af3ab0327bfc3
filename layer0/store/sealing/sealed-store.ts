/**
 * A store whose secrets are sealed: values are sealed on their way in and opened on their way out, so that nobody who reads
 * or writes knows of it. What is in clear under a sealed key, from before there was a ring, is read as it is.
 *
 * A value that does not open is handed on as it is stored, and told of in the log: it is no JSON, and whoever decodes it
 * treats it like every entry that is damaged. One such value must not stop a mirror of all others.
 */
import type { Logger } from '@flynn/kit/log';
import { messageOf } from '@flynn/kit/errors';
import { checkTransaction } from '../check.ts';
import type { EtcdClient } from '../etcd.ts';
import type {
  CallOptions,
  Change,
  ChangeBatch,
  Entry,
  Lease,
  ListOptions,
  Listing,
  Operation,
  Revision,
  Store,
  Transaction,
  TransactionResult,
} from '../store.ts';
import { keyIdOf, sealKeyOf } from './envelope.ts';
import type { SealKey } from './envelope.ts';
import { KnownKeys } from './known-keys.ts';
import type { ReadSealingKeys } from './known-keys.ts';
import { isOpenKey } from './rules.ts';

export type SealingOptions = {
  sealingKeys: ReadSealingKeys;
  log: Logger;
  now?: () => number;
};

/** The keys come first: a call may take the store's deadline for them and once more for itself. */
export class SealedStore<S extends Store = Store> implements Store {
  /** As it is stored. */
  readonly raw: S;
  readonly #keys: KnownKeys;
  readonly #readSealingKeys: ReadSealingKeys;
  readonly #log: Logger;

  constructor(raw: S, options: SealingOptions) {
    this.raw = raw;
    this.#keys = new KnownKeys({ now: () => performance.now(), ...options, store: raw });
    this.#readSealingKeys = options.sealingKeys;
    this.#log = options.log;
  }

  async get(key: string, options: CallOptions = {}): Promise<Entry | undefined> {
    const entry = await this.raw.get(key, options);
    if (entry === undefined) return undefined;
    const [opened] = await this.opened([entry], options);
    return opened;
  }

  async list(prefix: string, options: ListOptions = {}): Promise<Listing> {
    const listing = await this.raw.list(prefix, options);
    if (isOpenKey(prefix)) return listing;
    const entries = await this.opened(listing.entries, options);
    return Object.freeze({ entries: Object.freeze(entries), revision: listing.revision });
  }

  async transact(transaction: Transaction, options: CallOptions = {}): Promise<TransactionResult> {
    checkTransaction(transaction);
    const result = await this.raw.transact(await this.#sealed(transaction, options), options);
    const reads = await Promise.all(result.reads.map((entries) => this.opened(entries, options)));
    return Object.freeze({ ...result, reads: Object.freeze(reads.map((entries) => Object.freeze(entries))) });
  }

  watch(prefix: string, options: { after: Revision; signal: AbortSignal }): AsyncIterable<ChangeBatch> {
    const batches = this.raw.watch(prefix, options);
    return isOpenKey(prefix) ? batches : this.#openedBatches(batches, options);
  }

  grantLease(options: { ttlSeconds: number } & CallOptions): Promise<Lease> {
    return this.raw.grantLease(options);
  }

  compact(revision: Revision, options?: CallOptions): Promise<void> {
    return this.raw.compact(revision, options);
  }

  close(): Promise<void> {
    return this.raw.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.raw.close();
  }

  /** What the keys are sealed under: none where this process was not given it, two while it is made anew. */
  async sealingKeys(): Promise<SealKey[]> {
    return (await this.#readSealingKeys()).map(sealKeyOf);
  }

  /** Has the keys as they are now, and not those of a moment ago. */
  async readKeys(options: CallOptions): Promise<void> {
    await this.#keys.read(options);
  }

  /** Of the key that new values are sealed with; undefined as long as none are. */
  async currentKeyId(options: CallOptions): Promise<string | undefined> {
    return (await this.#keys.current(options))?.id;
  }

  /** Of entries as they are stored; what does not open stays as it is. */
  async opened(entries: readonly Entry[], options: CallOptions): Promise<Entry[]> {
    const isUnknown = ({ key, value }: Entry): boolean => {
      const id = isOpenKey(key) ? undefined : keyIdOf(value);
      return id !== undefined && this.#keys.get(id) === undefined;
    };
    if (entries.some(isUnknown)) await this.#keys.read(options);
    return entries.map((entry) => this.#openedEntry(entry));
  }

  async #sealed(transaction: Transaction, options: CallOptions): Promise<Transaction> {
    const { then } = transaction;
    if (!then.some((operation) => 'put' in operation && !isOpenKey(operation.put))) return transaction;
    const key = await this.#keys.current(options);
    if (key === undefined) return transaction;
    const sealed = then.map((operation): Operation => {
      if (!('put' in operation) || isOpenKey(operation.put)) return operation;
      const { put, lease } = operation;
      const value = key.seal(put, operation.value);
      return lease === undefined ? { put, value } : { put, value, lease };
    });
    return { ...transaction, then: sealed };
  }

  async *#openedBatches(
    batches: AsyncIterable<ChangeBatch>,
    options: { signal: AbortSignal },
  ): AsyncGenerator<ChangeBatch, void, undefined> {
    for await (const batch of batches) {
      let changes: Change[];
      try {
        changes = await this.#openedChanges(batch.changes, options);
      } catch (error) {
        // A watch ends silently with its signal.
        if (options.signal.aborted) return;
        throw error;
      }
      yield Object.freeze({ revision: batch.revision, changes: Object.freeze(changes) });
    }
  }

  async #openedChanges(changes: readonly Change[], options: CallOptions): Promise<Change[]> {
    const puts = changes.flatMap((change) => (change.type === 'put' ? [change.entry] : []));
    const opened = await this.opened(puts, options);
    let next = 0;
    return changes.map((change) => {
      if (change.type !== 'put') return change;
      const entry = opened[next] ?? change.entry;
      next += 1;
      return Object.freeze({ type: 'put', entry });
    });
  }

  #openedEntry(entry: Entry): Entry {
    const id = keyIdOf(entry.value);
    if (id === undefined || isOpenKey(entry.key)) return entry;
    const key = this.#keys.get(id);
    try {
      if (key !== undefined) return Object.freeze({ ...entry, value: key.open(entry.key, entry.value) });
      this.#log.error({ key: entry.key }, `the value of ${entry.key} is sealed with the key ${id}, which is not there`);
    } catch (error) {
      this.#log.error({ err: error, key: entry.key }, messageOf(error));
    }
    return entry;
  }
}

/** A client of etcd whose secrets are sealed. */
export class SealedEtcd extends SealedStore<EtcdClient> implements EtcdClient {
  get endpoints(): readonly string[] {
    return this.raw.endpoints;
  }

  set endpoints(endpoints: readonly string[]) {
    this.raw.endpoints = endpoints;
  }

  renewTls(): void {
    this.raw.renewTls();
  }
}
