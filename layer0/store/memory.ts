/** The memory driver: the whole contract in one process, for tests, simulations and development. */
import { abortError } from '@flynn/kit/clock';
import { FlynnError } from '@flynn/kit/errors';
import { MemoryDatabase } from './memory-database.ts';
import type { DatabaseImage } from './memory-database.ts';
import { RestoredError } from './store.ts';
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

/** What a test does to a memory store from outside. */
export interface MemoryStore extends Store {
  /** A second client of the same data, with its own connection: another process, so to say. */
  connect(): MemoryStore;
  /** From now on this client's calls fail with `unavailable`, its watches stall and its leases run out. */
  disconnect(): void;
  /** Watches go on where they stopped; leases that have not expired are kept alive again. */
  reconnect(): void;
  /** Has this client's watches say how far they are, as etcd does every ten minutes to those that it has nothing to tell. */
  tellProgress(): void;
  /** Ends every lease that is due by the injected clock. Without one, real timers do it. */
  expireLeases(): void;
  save(): DatabaseImage;
  /** Puts a backup in place of what there is, for all clients. Leases that are held still live on. */
  restore(image: DatabaseImage): void;
}

/** With `now` (milliseconds) leases expire by that clock, on the next call or `expireLeases()`; without, by real timers. */
export function createMemoryStore(options: { now?: () => number } = {}): MemoryStore {
  return new MemoryClient({ database: new MemoryDatabase(), now: options.now, leases: new Map(), granted: 0 });
}

type HeldLease = { id: string; ttlMs: number; lost: AbortController; dueMs?: number; timer?: NodeJS.Timeout };

/** `leases` is shared by all clients: the server is who ends them. */
type Shared = {
  database: MemoryDatabase;
  now: (() => number) | undefined;
  leases: Map<string, HeldLease>;
  granted: number;
};

/**
 * INVARIANTS. While its client is connected a lease has no due time (it is kept alive); from the disconnect on it has
 * one. Over a disconnect a watch knows no more than it yielded: it goes on after that.
 */
class MemoryClient implements MemoryStore {
  readonly #shared: Shared;
  readonly #own = new Set<string>();
  readonly #wakers = new Set<() => void>();
  #state: 'connected' | 'disconnected' | 'closed' = 'connected';
  #progressTold = 0;
  #disconnects = 0;

  constructor(shared: Shared) {
    this.#shared = shared;
  }

  connect(): MemoryStore {
    return new MemoryClient(this.#shared);
  }

  disconnect(): void {
    if (this.#state !== 'connected') return;
    this.#state = 'disconnected';
    this.#disconnects += 1;
    this.#abandonLeases();
  }

  reconnect(): void {
    if (this.#state !== 'disconnected') return;
    this.#state = 'connected';
    this.expireLeases();
    for (const id of this.#own) {
      const lease = this.#shared.leases.get(id);
      if (lease === undefined) continue;
      clearTimeout(lease.timer);
      delete lease.dueMs;
    }
    this.#wake();
  }

  tellProgress(): void {
    this.#progressTold += 1;
    this.#wake();
  }

  expireLeases(): void {
    const nowMs = this.#nowMs();
    for (const lease of this.#shared.leases.values()) {
      if (lease.dueMs !== undefined && lease.dueMs <= nowMs) expire(this.#shared, lease);
    }
  }

  save(): DatabaseImage {
    return this.#shared.database.save();
  }

  restore(image: DatabaseImage): void {
    const { database, leases } = this.#shared;
    database.restore(image);
    // Those the backup does not know are lost; those whose holder is gone run out, here at once.
    for (const lease of leases.values()) if (!database.hasLease(lease.id)) expire(this.#shared, lease);
    for (const id of image.leases) if (!leases.has(id)) database.endLease(id);
  }

  async get(key: string, options: CallOptions = {}): Promise<Entry | undefined> {
    await this.#enter(options);
    return this.#shared.database.get(key);
  }

  async list(prefix: string, options: ListOptions = {}): Promise<Listing> {
    await this.#enter(options);
    const listing = withValues(this.#shared.database.list(prefix, options.revision), options.isKeysOnly !== true);
    const { newest, before, first, after } = options;
    if (first !== undefined) {
      const above = listing.entries.filter(({ key }) => after === undefined || key > after);
      return Object.freeze({ entries: Object.freeze(above.slice(0, first)), revision: listing.revision });
    }
    if (newest === undefined) return listing;
    const below = before === undefined ? listing.entries : listing.entries.filter(({ key }) => key < before);
    return Object.freeze({ entries: Object.freeze(below.slice(-newest)), revision: listing.revision });
  }

  async transact(transaction: Transaction, options: CallOptions = {}): Promise<TransactionResult> {
    await this.#enter(options);
    return this.#shared.database.transact(transaction);
  }

  async compact(revision: Revision, options: CallOptions = {}): Promise<void> {
    await this.#enter(options);
    this.#shared.database.compact(revision);
  }

  async *watch(
    prefix: string,
    options: { after: Revision; signal: AbortSignal },
  ): AsyncGenerator<ChangeBatch, void, undefined> {
    const { database } = this.#shared;
    const { signal } = options;
    let yielded = options.after;
    let cursor = yielded;
    let progressTold = this.#progressTold;
    let disconnects = this.#disconnects;
    const { restores } = database;
    while (!signal.aborted) {
      if (this.#state === 'closed') throw closedError();
      if (disconnects !== this.#disconnects) cursor = yielded;
      disconnects = this.#disconnects;
      if (this.#state === 'connected') {
        if (database.restores !== restores) throw new RestoredError(yielded);
        const batch = database.changesAfter(cursor, prefix);
        const isNews = batch.revision > cursor;
        cursor = batch.revision;
        const isAsked = progressTold !== this.#progressTold && cursor > yielded;
        // As etcd does: what is under other prefixes is told to nobody.
        if (isNews && batch.changes.length === 0 && !isAsked) continue;
        progressTold = this.#progressTold;
        if (isNews || isAsked) {
          yielded = cursor;
          yield batch;
          continue;
        }
      }
      await this.#change(signal);
    }
  }

  async grantLease(options: { ttlSeconds: number } & CallOptions): Promise<Lease> {
    await this.#enter(options);
    const shared = this.#shared;
    shared.granted += 1;
    const id = String(shared.granted);
    const held: HeldLease = { id, ttlMs: options.ttlSeconds * 1000, lost: new AbortController() };
    shared.leases.set(id, held);
    shared.database.addLease(id);
    this.#own.add(id);
    const nowMs = () => this.#nowMs();
    const drop = () => {
      clearTimeout(held.timer);
      shared.leases.delete(id);
      this.#own.delete(id);
      shared.database.endLease(id);
    };
    return {
      id,
      ttlSeconds: options.ttlSeconds,
      lost: held.lost.signal,
      // Kept alive while its client is connected.
      get expiresAtMs() {
        return held.dueMs ?? nowMs() + held.ttlMs;
      },
      revoke: async () => {
        await this.#enter({});
        drop();
      },
      // Nobody is left to keep it alive: while disconnected it runs out by itself.
      [Symbol.asyncDispose]: async () => {
        if (this.#state === 'connected') drop();
      },
    };
  }

  async close(): Promise<void> {
    if (this.#state === 'closed') return;
    if (this.#state === 'connected') this.#abandonLeases();
    this.#state = 'closed';
    this.#wake();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #enter({ signal }: CallOptions): Promise<void> {
    if (signal?.aborted === true) throw abortError(signal);
    if (this.#state === 'closed') throw closedError();
    if (this.#state === 'disconnected') {
      // A real connection attempt takes a moment too: whoever retries at once must not starve the process.
      await new Promise<void>((resolve) => setImmediate(resolve));
      throw new FlynnError('unavailable', 'the store cannot be reached: this client was disconnected');
    }
    if (this.#shared.now !== undefined) this.expireLeases();
  }

  #abandonLeases(): void {
    for (const id of this.#own) {
      const lease = this.#shared.leases.get(id);
      if (lease === undefined) continue;
      lease.dueMs = this.#nowMs() + lease.ttlMs;
      if (this.#shared.now !== undefined) continue;
      lease.timer = setTimeout(() => expire(this.#shared, lease), lease.ttlMs).unref();
    }
  }

  #nowMs(): number {
    return this.#shared.now?.() ?? performance.now();
  }

  #wake(): void {
    for (const waker of this.#wakers) waker();
  }

  /** Resolves at the next commit, compaction or change of the connection, or when the signal aborts. */
  #change(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        stop();
        this.#wakers.delete(done);
        signal.removeEventListener('abort', done);
        resolve();
      };
      const stop = this.#shared.database.onChange(done);
      this.#wakers.add(done);
      signal.addEventListener('abort', done, { once: true });
    });
  }
}

function expire(shared: Shared, lease: HeldLease): void {
  clearTimeout(lease.timer);
  if (!shared.leases.delete(lease.id)) return;
  shared.database.endLease(lease.id);
  lease.lost.abort(new FlynnError('unavailable', `lease ${lease.id} expired: it could not be kept alive`));
}

function withValues(listing: Listing, hasValues: boolean): Listing {
  if (hasValues) return listing;
  const entries = listing.entries.map((entry) => Object.freeze({ ...entry, value: '' }));
  return Object.freeze({ entries: Object.freeze(entries), revision: listing.revision });
}

function closedError(): FlynnError {
  return new FlynnError('cancelled', 'the store client was closed');
}
