/** The etcd driver. etcd3 carries the calls and nothing more: watching, retrying and keeping leases alive are done here. */
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { newId } from '@flynn/kit/ids';
import type { Logger } from '@flynn/kit/log';
import type { Etcd3, IKeyValue, IRangeRequest, IResponseHeader, ITxnRequest } from 'etcd3';
import { checkTransaction } from './check.ts';
import { LeaderNews, unlessLost } from './etcd-doubt.ts';
import { WriteFence } from './etcd-fence.ts';
import { openLease } from './etcd-lease.ts';
import { EtcdMembers } from './etcd-members.ts';
import type { EtcdTls, Member } from './etcd-members.ts';
import { Renewals } from './etcd-renewals.ts';
import { isReadOnly, resultOf, txnOf } from './etcd-transaction.ts';
import { askInTurn } from './etcd-turns.ts';
import { watchPrefix } from './etcd-watch.ts';
import { bytesOf, entryOf, isCompacted, isFaultOfMember, rangeOf, wasNeverSent } from './etcd-wire.ts';
import { CompactedError } from './store.ts';
import type {
  CallOptions,
  ChangeBatch,
  Entry,
  Lease,
  ListOptions,
  Listing,
  Revision,
  Store,
  Transaction,
  TransactionResult,
} from './store.ts';

/** What lies with a member for longer than this is not expected to be carried out any more. */
const fenceSeconds = 7 * 86_400;
/** Entries are mostly a few hundred bytes: a page stays far below a megabyte and a cluster of thousands takes few. */
const pageEntries = 1000;

export type EtcdOptions = {
  /** `http://…`, or `https://…` with `tls`. */
  endpoints: readonly string[];
  tls?: EtcdTls;
  /** Bounds every call, waiting for an election or a reconnect included. Default 5000. */
  timeoutMs?: number;
  /** Told of every call when it has ended. */
  onCall?: (call: EtcdCall) => void;
  log: Logger;
};

/** `isAnswered`: also when etcd answered with a refusal. */
export type EtcdCall = Readonly<{ kind: 'read' | 'write'; tookMs: number; isAnswered: boolean }>;

/** A store whose members may change while it is used. */
export interface EtcdClient extends Store {
  /** At least one. */
  endpoints: readonly string[];
  /** The certificate changed: connections are made anew, and no call fails for it. */
  renewTls(): void;
}

/** Connects lazily. */
export function connectEtcd(options: EtcdOptions): EtcdClient {
  return new EtcdStore(options);
}

/**
 * INVARIANTS. Reads are repeated on failure, transactions only if they were certainly never sent. Everything a client
 * opened ends with `close()`.
 */
class EtcdStore implements EtcdClient {
  readonly #members: EtcdMembers;
  readonly #renewals = new Renewals();
  readonly #timeoutMs: number;
  /** So that each of three members is asked well within the time a read has. */
  readonly #stepMs: number;
  readonly #log: Logger;
  readonly #onCall: NonNullable<EtcdOptions['onCall']>;
  readonly #closing = new AbortController();
  readonly #leaders = new LeaderNews();
  readonly #fence = new WriteFence({ key: `/flynn/fences/${newId()}`, raise: (key) => this.#raise(key) });
  #fenceLease: { readonly ID: string } | undefined;
  /** Of the last answer: what restores from a backup, or makes anew, makes another cluster. */
  #clusterId: string | undefined;

  constructor(options: EtcdOptions) {
    this.#timeoutMs = options.timeoutMs ?? 5_000;
    this.#stepMs = this.#timeoutMs / 5;
    this.#log = options.log;
    this.#onCall = options.onCall ?? (() => undefined);
    this.#members = new EtcdMembers(options.endpoints, options.tls);
  }

  get endpoints(): readonly string[] {
    return this.#members.endpoints;
  }

  set endpoints(endpoints: readonly string[]) {
    this.#members.endpoints = endpoints;
  }

  renewTls(): void {
    this.#members.renew(this.#timeoutMs);
  }

  async get(key: string, options: CallOptions = {}): Promise<Entry | undefined> {
    const answer = await this.#call(`reading ${key}`, 'read', options, (client, deadline) =>
      client.kv.range({ key: bytesOf(key) }, { deadline }),
    );
    const [kv] = answer.kvs;
    return kv === undefined ? undefined : entryOf(kv);
  }

  async list(prefix: string, options: ListOptions = {}): Promise<Listing> {
    if (options.newest !== undefined) return this.#newest(prefix, options.newest, options);
    if (options.first !== undefined) return this.#first(prefix, options.first, options);
    // History moves on only every few minutes: that it overtakes one listing twice does not happen.
    for (let attempt = 0; ; attempt += 1) {
      try {
        return await this.#pages(prefix, options);
      } catch (error) {
        if (!(error instanceof CompactedError) || options.revision !== undefined || attempt >= 2) throw error;
      }
    }
  }

  async #newest(prefix: string, count: number, options: ListOptions): Promise<Listing> {
    const range = rangeOf(prefix);
    const end = options.before === undefined ? range.range_end : Buffer.from(options.before);
    const newestFirst = { sort_order: 'Descend', sort_target: 'Key', limit: count } as const;
    const answer = await this.#page(
      prefix,
      { ...newestFirst, key: range.key, range_end: end },
      options.revision,
      options,
    );
    const entries = answer.kvs.map(entryOf).toReversed();
    return Object.freeze({
      entries: Object.freeze(entries),
      revision: options.revision ?? Number(answer.header.revision),
    });
  }

  async #first(prefix: string, count: number, options: ListOptions): Promise<Listing> {
    const range = rangeOf(prefix);
    const key = options.after === undefined ? range.key : Buffer.concat([Buffer.from(options.after), Buffer.from([0])]);
    const answer = await this.#page(prefix, { ...range, key, limit: count }, options.revision, options);
    return Object.freeze({
      entries: Object.freeze(answer.kvs.map(entryOf)),
      revision: options.revision ?? Number(answer.header.revision),
    });
  }

  async #pages(prefix: string, options: ListOptions): Promise<Listing> {
    const range = rangeOf(prefix);
    let key = range.key;
    let revision = options.revision;
    const entries: Entry[] = [];
    for (;;) {
      const answer = await this.#page(prefix, { ...range, key }, revision, options);
      revision ??= Number(answer.header.revision);
      for (const kv of answer.kvs) entries.push(entryOf(kv));
      const last: IKeyValue | undefined = answer.kvs.at(-1);
      if (!answer.more || last === undefined) return Object.freeze({ entries: Object.freeze(entries), revision });
      key = Buffer.concat([last.key, Buffer.from([0])]);
    }
  }

  async #page(
    prefix: string,
    range: IRangeRequest & { key: Buffer; range_end: Buffer },
    revision: Revision | undefined,
    options: ListOptions,
  ) {
    try {
      return await this.#call(`listing ${prefix}`, 'read', options, (client, deadline) =>
        client.kv.range(
          { limit: pageEntries, ...range, revision: revision ?? 0, keys_only: options.isKeysOnly === true },
          { deadline },
        ),
      );
    } catch (error) {
      if (isCompacted(error)) throw new CompactedError(revision ?? 0);
      throw error;
    }
  }

  async transact(transaction: Transaction, options: CallOptions = {}): Promise<TransactionResult> {
    checkTransaction(transaction);
    const request = txnOf(transaction);
    const answer = await (isReadOnly(transaction) ? this.#ask(request, options) : this.#carryOut(request, options));
    return resultOf(transaction, answer);
  }

  #ask(request: ITxnRequest, options: CallOptions) {
    return this.#call('a transaction', 'read', options, (client, deadline) => client.kv.txn(request, { deadline }));
  }

  #carryOut(request: Required<ITxnRequest>, options: CallOptions) {
    const untilMs = performance.now() + this.#timeoutMs;
    const send = (fenced: ITxnRequest) =>
      this.#call('a transaction', 'write', { ...options, untilMs }, (client, deadline) =>
        client.kv.txn(fenced, { deadline }),
      );
    return this.#fence.carryOut(request, { send, untilMs, signal: this.#endOf(options) });
  }

  /** The lease is one for all of the client's life: its end, or another store, makes another one. */
  async #raise(key: string): Promise<Revision> {
    const raised = async (lease: string): Promise<Revision> => {
      const request = { key: bytesOf(key), value: bytesOf('{}'), lease };
      const answer = await this.#call('raising the fence', 'read', {}, (client, deadline) =>
        client.kv.put(request, { deadline }),
      );
      return Number(answer.header.revision);
    };
    try {
      return await raised((this.#fenceLease ??= await this.#grant(fenceSeconds, {})).ID);
    } catch (error) {
      if (!hasCode(error, 'not_found')) throw error;
      this.#fenceLease = await this.#grant(fenceSeconds, {});
      return await raised(this.#fenceLease.ID);
    }
  }

  watch(prefix: string, options: { after: Revision; signal: AbortSignal }): AsyncIterable<ChangeBatch> {
    return watchPrefix({
      members: this.#members,
      prefix,
      after: options.after,
      signal: options.signal,
      closing: this.#closing.signal,
      openMs: this.#timeoutMs,
      clusterId: this.#clusterId,
      currentRevision: () => this.#revision(),
      log: this.#log,
    });
  }

  async #revision(): Promise<Revision> {
    return Number((await this.#present()).revision);
  }

  /** As a majority knows it. */
  async #present(): Promise<IResponseHeader> {
    const answer = await this.#call('reading the revision', 'read', {}, (client, deadline) =>
      client.kv.range({ key: bytesOf('/'), keys_only: true, limit: 1 }, { deadline }),
    );
    return answer.header;
  }

  async grantLease(options: { ttlSeconds: number } & CallOptions): Promise<Lease> {
    // Counted from before the request: etcd cannot have started its own count earlier.
    const grantedMs = performance.now();
    const answer = await this.#grant(options.ttlSeconds, options);
    return openLease({
      members: this.#members,
      renewals: this.#renewals,
      id: answer.ID,
      ttlSeconds: Number(answer.TTL),
      grantedMs,
      closing: this.#closing.signal,
      log: this.#log,
      revoke: () => this.#revoke(answer.ID),
    });
  }

  /** One that is granted besides is kept alive by nobody. */
  #grant(ttlSeconds: number, options: CallOptions) {
    return this.#call('granting a lease', 'read', options, (client, deadline) =>
      client.leaseClient.leaseGrant({ TTL: ttlSeconds }, { deadline }),
    );
  }

  async #revoke(id: string): Promise<void> {
    await this.#call(`revoking lease ${id}`, 'read', {}, (client, deadline) =>
      client.leaseClient.leaseRevoke({ ID: id }, { deadline }),
    );
  }

  async compact(revision: Revision, options: CallOptions = {}): Promise<void> {
    try {
      await this.#call(`compacting up to revision ${revision}`, 'read', options, (client, deadline) =>
        client.kv.compact({ revision, physical: true }, { deadline }),
      );
    } catch (error) {
      // Somebody compacted further already: what was asked for holds.
      if (!isCompacted(error)) throw error;
    }
  }

  async close(): Promise<void> {
    if (this.#closing.signal.aborted) return;
    this.#closing.abort(new FlynnError('cancelled', 'the store client was closed'));
    this.#renewals.close();
    this.#members.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #endOf({ signal }: CallOptions): AbortSignal {
    return signal === undefined ? this.#closing.signal : AbortSignal.any([signal, this.#closing.signal]);
  }

  /** 'read' is anything that may be done twice, at the same time too. */
  async #call<T extends { header: IResponseHeader }>(
    what: string,
    kind: 'read' | 'write',
    { signal, untilMs = performance.now() + this.#timeoutMs }: CallOptions & { untilMs?: number },
    send: (client: Etcd3, deadline: Date) => Promise<T>,
  ): Promise<T> {
    const startedMs = performance.now();
    const ended = this.#endOf({ signal });
    const asking = askInTurn({
      members: this.#members,
      what,
      ask: (member) => {
        const answer = send(member.client, new Date(Date.now() + untilMs - performance.now()));
        return kind === 'read' ? answer : unlessLost(answer, { ...this.#doubt(member), what, signal: ended });
      },
      untilMs,
      pace: { ...(kind === 'read' ? { stepMs: this.#stepMs } : {}), maxPauseMs: 500, silentMs: this.#stepMs },
      canRepeat: (error) => (error.code === 'unavailable' && kind === 'read') || wasNeverSent(error),
      signal: ended,
    });
    const tell = (isAnswered: boolean) => this.#onCall({ kind, tookMs: performance.now() - startedMs, isAnswered });
    const answer = await asking.catch((error: unknown) => {
      tell(!isFaultOfMember(error));
      throw error;
    });
    tell(true);
    this.#clusterId = answer.header.cluster_id;
    this.#leaders.heard(answer.header);
    return answer;
  }

  #doubt(member: Member) {
    return {
      afterMs: this.#stepMs,
      againMs: this.#stepMs / 4,
      sentTerm: this.#leaders.term,
      term: async () => Number((await this.#present()).raft_term),
      isHanging: () => this.#members.isHanging(member),
    };
  }
}
