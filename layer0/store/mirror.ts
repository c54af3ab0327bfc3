/** A prefix of the store folded into frozen snapshots: what planners and reconcilers read. */
import { abortError, systemClock } from '@flynn/kit/clock';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { backoffMs, retry, withDeadline } from '@flynn/kit/retry';
import { TaskGroup, forever } from '@flynn/kit/tasks';
import { foldBatch, foldListing, foldRestored, findDrift, emptyState } from './mirror-state.ts';
import type { MirrorChange, MirrorState, Snapshot } from './mirror-state.ts';
import { CompactedError, RestoredError } from './store.ts';
import type { Entry, Listing, Revision, Store } from './store.ts';

export type { MirrorChange, Snapshot } from './mirror-state.ts';

export interface Mirror<T> extends AsyncDisposable {
  /** The state of the prefix at `snapshot.revision`, frozen. */
  readonly snapshot: Snapshot<T>;
  /** Keys of entries that are there and were left out. Whoever acts on what is not there asks for them first. */
  readonly unreadable: ReadonlySet<string>;
  /** How many entries a resync has found different from the store so far: watches that lost something. */
  readonly driftCount: number;
  /**
   * The current snapshot at once, then the latest after every wake whose entries differ. Ends when the signal aborts or the
   * mirror is closed.
   */
  changes(options: { signal: AbortSignal }): AsyncIterable<Snapshot<T>>;
  /** A snapshot at or after the revision. `timeout` after `deadlineMs` (default 5000). */
  reached(revision: Revision, options?: { signal?: AbortSignal; deadlineMs?: number }): Promise<Snapshot<T>>;
  /** Called for every change in order, with the snapshot after the whole batch. Returns the unsubscribe function. */
  onChange(listener: (change: MirrorChange<T>, snapshot: Snapshot<T>) => void): () => void;
}

export type MirrorOptions<T> = {
  store: Store;
  prefix: string;
  /** Called with the parsed JSON and the key without the prefix; where it throws, that is logged, and the entry left out. */
  decode: (json: unknown, key: string, entry: Entry) => T;
  /** What stands for an entry that could not be read, instead of leaving it out. */
  instead?: (key: string) => T;
  /** Told of all entries that are there and were left out, by their keys without the prefix, before listeners hear what changed. */
  onUnreadable?: (keys: ReadonlySet<string>) => void;
  log: Logger;
  signal?: AbortSignal;
  /** How often a mirror of up to a thousand entries is compared with the store, default 60 s. The more it has the rarer. */
  resyncMs?: number;
};

/** Resolves with the first listing folded in; waits up to 30 s for a store that is not there yet. */
export async function openMirror<T>(options: MirrorOptions<T>): Promise<Mirror<T>> {
  const { store, prefix, signal } = options;
  const listing = await retry((limited) => store.list(prefix, { signal: limited }), {
    what: `listing ${prefix}`,
    deadlineMs: 30_000,
    ...(signal === undefined ? {} : { signal }),
  });
  const mirror = new StoreMirror(options);
  mirror.fold((state) => foldListing(state, listing, options));
  mirror.start();
  return mirror;
}

/** Each host has mirrors of what grows with the cluster: the store is asked no more of each because there is more. */
const entriesPerResync = 1_000;
/** Long enough for a watch event to arrive, short enough that nobody notices. */
const patienceMs = 250;

/**
 * INVARIANTS. The snapshot's revision never goes back, unless the store was restored to an earlier one. Every way in goes
 * through `fold`, which is synchronous: listeners and waiters see whole batches. Nothing of a store that is known to have
 * been replaced is folded in: not what was asked for before, nor a watch from its revisions.
 */
class StoreMirror<T> implements Mirror<T> {
  readonly #options: MirrorOptions<T>;
  readonly #tasks: TaskGroup;
  readonly #listeners = new Set<(change: MirrorChange<T>, snapshot: Snapshot<T>) => void>();
  readonly #wakers = new Set<() => void>();
  #state: MirrorState<T> = emptyState();
  #refreshing: Promise<void> | undefined;
  #driftCount = 0;
  /** The store is not the one the state is of; until the new one has been listed. */
  #isVoid = false;
  #restoreCount = 0;

  constructor(options: MirrorOptions<T>) {
    this.#options = options;
    this.#tasks = new TaskGroup(options.signal === undefined ? {} : { signal: options.signal });
  }

  get snapshot(): Snapshot<T> {
    return this.#state.snapshot;
  }

  get unreadable(): ReadonlySet<string> {
    return new Set(this.#state.unreadable.keys());
  }

  get driftCount(): number {
    return this.#driftCount;
  }

  start(): void {
    const { log, prefix } = this.#options;
    const pace = { log, minMs: 100, maxMs: 5_000 };
    this.#tasks.run('follow', (signal) =>
      forever(`the mirror of ${prefix}`, (s) => this.#follow(s), { ...pace, signal }),
    );
    this.#tasks.run('resync', (signal) =>
      forever(`the resync of ${prefix}`, (s) => this.#resync(s), { ...pace, signal }),
    );
    this.#tasks.signal.addEventListener('abort', () => this.#wake(), { once: true });
  }

  fold(step: (state: MirrorState<T>) => { state: MirrorState<T>; changes: readonly MirrorChange<T>[] }): void {
    const { state, changes } = step(this.#state);
    const isNews = state.unreadable !== this.#state.unreadable;
    this.#state = state;
    if (isNews) this.#options.onUnreadable?.(new Set(state.unreadable.keys()));
    for (const change of changes) {
      for (const listener of this.#listeners) this.#tell(listener, change);
    }
    this.#wake();
  }

  async *changes({ signal }: { signal: AbortSignal }): AsyncGenerator<Snapshot<T>, void, undefined> {
    const ended = AbortSignal.any([signal, this.#tasks.signal]);
    let told: Snapshot<T> | undefined;
    while (!ended.aborted) {
      const { snapshot } = this;
      if (snapshot.entries === told?.entries) {
        await this.#nextWake(ended);
        continue;
      }
      told = snapshot;
      yield snapshot;
    }
  }

  async reached(revision: Revision, options: { signal?: AbortSignal; deadlineMs?: number } = {}): Promise<Snapshot<T>> {
    const deadlineMs = options.deadlineMs ?? 5_000;
    const deadline = withDeadline(deadlineMs, options.signal);
    const ended = AbortSignal.any([deadline, this.#tasks.signal]);
    // The watch tells only of its prefix: a revision that is about something else is reached by asking. A listing that others had
    // asked for before may be older than it, and any may fail: asked again until it is there.
    let isOver = false;
    let asking = setTimeout(() => void ask(0), patienceMs);
    const ask = async (attempt: number) => {
      await this.#refresh();
      if (isOver || this.snapshot.revision >= revision) return;
      asking = setTimeout(() => void ask(attempt + 1), backoffMs(attempt, { minMs: 20, maxMs: 1_000 }));
    };
    try {
      while (this.snapshot.revision < revision) {
        if (this.#tasks.signal.aborted)
          throw new FlynnError('cancelled', `the mirror of ${this.#options.prefix} was closed`);
        if (options.signal?.aborted === true) throw abortError(options.signal);
        if (ended.aborted) throw this.#tooLate(revision, deadlineMs);
        await this.#nextWake(ended);
      }
      return this.snapshot;
    } finally {
      isOver = true;
      clearTimeout(asking);
    }
  }

  onChange(listener: (change: MirrorChange<T>, snapshot: Snapshot<T>) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#tasks.stop();
  }

  async #follow(signal: AbortSignal): Promise<void> {
    const { store, prefix, log } = this.#options;
    if (this.#isVoid) return await this.#startOver(signal);
    try {
      for await (const batch of store.watch(prefix, { after: this.snapshot.revision, signal })) {
        this.fold((state) => foldBatch(state, batch, this.#options));
      }
    } catch (error) {
      if (error instanceof RestoredError) {
        log.warn({ prefix, after: this.snapshot.revision }, 'the store was restored, the mirror starts over');
        this.#isVoid = true;
        return await this.#startOver(signal);
      }
      if (!(error instanceof CompactedError)) throw error;
      log.info({ prefix, after: this.snapshot.revision }, 'the history behind the mirror was compacted, listing again');
      await this.#relist(signal);
    }
  }

  async #startOver(signal: AbortSignal): Promise<void> {
    const listing = await this.#options.store.list(this.#options.prefix, { signal });
    this.fold((state) => foldRestored(state, listing, this.#options));
    this.#isVoid = false;
    this.#restoreCount += 1;
  }

  async #relist(signal: AbortSignal): Promise<void> {
    const listing = await this.#list({ signal });
    if (listing !== undefined) this.fold((state) => foldListing(state, listing, this.#options));
  }

  /** undefined if the store was replaced meanwhile: what it answered is of no use then. */
  async #list(options: {
    signal: AbortSignal;
    revision?: Revision;
    isKeysOnly?: boolean;
  }): Promise<Listing | undefined> {
    const restoresBefore = this.#restoreCount;
    const listing = await this.#options.store.list(this.#options.prefix, options);
    return this.#isVoid || this.#restoreCount !== restoresBefore ? undefined : listing;
  }

  /** Compares a state of ours with the store's at exactly its revision: at the same revision both have to be equal. */
  async #resync(signal: AbortSignal): Promise<void> {
    const { prefix, log, resyncMs = 60_000 } = this.#options;
    const pace = Math.max(1, this.#state.entries.size / entriesPerResync);
    // Spread out, so that a fleet started at once does not list at once.
    await systemClock.sleep(resyncMs * pace * (0.75 + Math.random() / 2), { signal });
    const state = this.#state;
    try {
      const listing = await this.#list({ revision: state.snapshot.revision, isKeysOnly: true, signal });
      if (listing === undefined) return;
      const drifted = findDrift(state, listing, prefix);
      if (drifted.length === 0) return;
      this.#driftCount += drifted.length;
      log.warn(
        { prefix, revision: listing.revision, drifted: drifted.slice(0, 10), count: drifted.length },
        'the mirror had drifted from the store, healing it',
      );
    } catch (error) {
      if (!(error instanceof CompactedError)) throw error;
    }
    await this.#relist(signal);
  }

  /** Brings the mirror up to the store's present revision; concurrent callers share one listing. */
  async #refresh(): Promise<void> {
    this.#refreshing ??= this.#relist(this.#tasks.signal).finally(() => {
      this.#refreshing = undefined;
    });
    try {
      await this.#refreshing;
    } catch (error) {
      // Whoever waits goes on waiting for the watch, up to its deadline.
      if (!hasCode(error, 'cancelled')) this.#options.log.debug({ err: error }, 'the mirror could not be refreshed');
    }
  }

  #tell(listener: (change: MirrorChange<T>, snapshot: Snapshot<T>) => void, change: MirrorChange<T>): void {
    try {
      listener(change, this.snapshot);
    } catch (error) {
      // One listener's fault must not stop the others, nor the mirror.
      this.#options.log.error(
        { err: error, prefix: this.#options.prefix, entry: change.key },
        'a mirror listener failed',
      );
    }
  }

  #tooLate(revision: Revision, deadlineMs: number): FlynnError {
    const { prefix } = this.#options;
    return new FlynnError(
      'timeout',
      `the mirror of ${prefix} is at revision ${this.snapshot.revision} and did not reach ${revision} within ${deadlineMs} ms: the store is slow or cannot be reached`,
    );
  }

  #wake(): void {
    for (const waker of this.#wakers) waker();
  }

  #nextWake(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        this.#wakers.delete(done);
        signal.removeEventListener('abort', done);
        resolve();
      };
      if (signal.aborted) return done();
      this.#wakers.add(done);
      signal.addEventListener('abort', done, { once: true });
      return undefined;
    });
  }
}
