/** Keeps columns of the cell in step with the store: listed, watched, and compared with it now and then. */
import { systemClock } from '@flynn/kit/clock';
import { hasCode } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { retry } from '@flynn/kit/retry';
import { forever } from '@flynn/kit/tasks';
import type { TaskGroup } from '@flynn/kit/tasks';
import { CompactedError, RestoredError } from '@flynn/store/store';
import type { Change, ChangeBatch, Entry, Revision, Store } from '@flynn/store/store';
import { cellKeys, cellPrefix } from './cell.ts';
import type { CellColumns } from './columns/cell-columns.ts';
import { cellKinds } from './columns/entries.ts';
import type { CellKind } from './columns/entries.ts';

export type CellFollowerOptions = Readonly<{
  store: Store;
  columns: CellColumns;
  /** Folds into the columns, and whatever else follows from it. Synchronous. */
  fold: (batch: ChangeBatch) => void;
  log: Logger;
  /** How often it is compared with the store, default 60 s. */
  resyncMs?: number;
}>;

/** Of so many hosts assignments and statuses are compared in one go; the next ones the next time. */
const hostsPerResync = 64;
/** So many evaluations are read in one transaction. */
const readAtOnce = 100;

/**
 * INVARIANTS. The columns' revision never goes back. From the first listing on the columns are of one revision whenever somebody
 * looks: what is listed again is folded in one stretch. On new claims beside old jobs a plan is made that every compare lets
 * pass. What a comparison lists is of exactly the columns' revision; keys that change while it is listed are left out of it.
 */
export class CellFollower {
  readonly #options: CellFollowerOptions;
  /** Keys changed while a comparison waits for its listing. */
  #changed: Set<string> | undefined;
  #nextHost = 0;
  #driftCount = 0;
  /** The watch cannot bring the columns to what the store has, or did not: all of it is listed first. */
  #isOutdated = false;
  /** Ends the watch under way. */
  #watching = new AbortController();
  /** Keys of ended evaluations, which the columns do not hold. */
  readonly #ended = new Set<string>();
  /** What differed when it was last compared, by the prefix: listing everything once more would not put that right. */
  readonly #differing = new Map<string, ReadonlySet<string>>();

  constructor(options: CellFollowerOptions) {
    this.#options = options;
  }

  /** How many entries comparisons have found different so far: watches that lost something. */
  get driftCount(): number {
    return this.#driftCount;
  }

  /** Resolves with the cell as it is folded in; waits up to 30 s for a store that is not there yet. */
  async open(signal: AbortSignal): Promise<void> {
    const isRetryable = (error: unknown) =>
      error instanceof CompactedError || hasCode(error, 'unavailable', 'timeout', 'exhausted');
    const read = (limited: AbortSignal) => this.read(limited);
    await retry(read, { what: 'listing the cell', deadlineMs: 30_000, signal, isRetryable });
  }

  /** As `open`, tried once and however long it takes: each call of the store has its deadline. */
  async read(signal: AbortSignal): Promise<void> {
    const { columns } = this.#options;
    // Nobody looks at them before this resolves, so each kind goes in as it comes: all of a large cell at once is much.
    const take = (changes: readonly Change[]) => this.#fold({ revision: columns.revision, changes });
    this.#fold({ revision: await this.#list(take, signal), changes: [] });
  }

  /** Its tasks fail with RestoredError: what the columns hold is void then, and so is all that was concluded from it. */
  follow(tasks: TaskGroup): void {
    const { log } = this.#options;
    const pace = { log, minMs: 100, maxMs: 5_000, isFinal: (error: unknown) => error instanceof RestoredError };
    const run = (name: string, step: (signal: AbortSignal) => Promise<void>) =>
      tasks.run(name, (signal) => forever(name, step, { ...pace, signal }));
    run("the scheduler's watch of the cell", (signal) => this.#watch(signal));
    run("the scheduler's resync of the cell", (signal) => this.#resyncSoon(signal));
  }

  async #watch(signal: AbortSignal): Promise<void> {
    const { store, columns, log } = this.#options;
    if (this.#isOutdated) return await this.#relist(signal);
    this.#watching = new AbortController();
    const ended = AbortSignal.any([signal, this.#watching.signal]);
    try {
      for await (const batch of store.watch(cellPrefix, { after: columns.revision, signal: ended })) this.#fold(batch);
    } catch (error) {
      if (!(error instanceof CompactedError)) throw error;
      log.info({ after: columns.revision }, 'the history behind the scheduler was compacted, listing the cell again');
      this.#isOutdated = true;
    }
  }

  #fold(batch: ChangeBatch): void {
    for (const change of batch.changes) {
      const key = keyOf(change);
      this.#changed?.add(key);
      if (key.startsWith(cellKeys.evaluations)) this.#noteEnded(key, change.type === 'put' ? change.entry : undefined);
    }
    this.#options.fold(batch);
  }

  #noteEnded(key: string, entry: Entry | undefined): void {
    if (entry !== undefined && !isOpenEvaluation(entry)) this.#ended.add(key);
    else this.#ended.delete(key);
  }

  /** Of what is listed only what differs is kept until all is there. No watch is under way. */
  async #relist(signal: AbortSignal): Promise<void> {
    const kinds: Change[][] = [];
    const revision = await this.#list((changes) => kinds.push(changes), signal);
    this.#fold({ revision, changes: kinds.flat() });
    this.#isOutdated = false;
  }

  /** Everything at one revision, one kind after the other: what has to be folded in, and what is not there any more. */
  async #list(take: (changes: Change[]) => void, signal: AbortSignal): Promise<Revision> {
    let revision: Revision | undefined;
    for (const kind of cellKinds) {
      const at = revision === undefined ? {} : { revision };
      const listing = await this.#options.store.list(`${cellPrefix}${kind}/`, { signal, ...at });
      revision = listing.revision;
      const known = new Map(this.#versions(kind));
      // Those that ended are not in the columns, and not missing there.
      const isKept = (entry: Entry) => known.has(entry.key) || isOpenEvaluation(entry);
      const entries = kind === 'evaluations' ? listing.entries.filter(isKept) : listing.entries;
      if (kind === 'evaluations') for (const entry of listing.entries) this.#noteEnded(entry.key, entry);
      take(differences(entries, known, revision));
    }
    return revision ?? this.#options.columns.revision;
  }

  #versions(kind: CellKind): Iterable<readonly [string, Revision]> {
    const { columns } = this.#options;
    if (kind !== 'assignments' && kind !== 'status') return columns.versions(kind);
    const all: (readonly [string, Revision])[] = [];
    for (const hostId of columns.knownHosts()) all.push(...columns.versions(kind, hostId));
    return all;
  }

  async #resyncSoon(signal: AbortSignal): Promise<void> {
    const { columns, resyncMs = 60_000 } = this.#options;
    // Each host has a scheduler: the more there are the less often each of them compares, and the store is asked no more.
    const pace = Math.max(1, columns.hosts.size / hostsPerResync);
    // Spread out, so that a fleet started at once does not list at once.
    await systemClock.sleep(resyncMs * pace * (0.75 + Math.random() / 2), { signal });
    const hosts = [...columns.knownHosts()];
    for (let count = 0; count < Math.min(hostsPerResync, Math.max(1, hosts.length)); count += 1) {
      if (this.#nextHost >= hosts.length) this.#nextHost = 0;
      // What is of no host has its turn once in a round of all hosts.
      if (this.#nextHost === 0) await this.#compareKinds(signal);
      const hostId = hosts[this.#nextHost];
      this.#nextHost += 1;
      if (hostId === undefined) continue;
      await this.#compare('assignments', hostId, signal);
      await this.#compare('status', hostId, signal);
    }
  }

  async #compareKinds(signal: AbortSignal): Promise<void> {
    for (const kind of cellKinds) {
      if (kind !== 'assignments' && kind !== 'status') await this.#compare(kind, '', signal);
    }
  }

  /**
   * By keys and modRevisions. What differs is not put right by itself, for that is no cell of one revision: all is listed. What
   * differs just so the next time as well is left as it is.
   */
  async #compare(kind: CellKind, hostId: string, signal: AbortSignal): Promise<void> {
    const { store, columns, log } = this.#options;
    if (this.#isOutdated) return;
    const prefix = `${cellPrefix}${kind}/${hostId === '' ? '' : `${hostId}/`}`;
    const changed = new Set<string>();
    this.#changed = changed;
    try {
      const listing = await store.list(prefix, { revision: columns.revision, isKeysOnly: true, signal });
      const entries = kind === 'evaluations' ? await this.#withoutEnded(listing.entries, signal) : listing.entries;
      const held = new Map(columns.versions(kind, hostId));
      const all = differences(entries, new Map(held), listing.revision).filter((change) => !changed.has(keyOf(change)));
      if (this.#isOutdated) return;
      const drifted = this.#newOf(prefix, all, held).map(keyOf);
      if (drifted.length === 0) return;
      this.#driftCount += drifted.length;
      const facts = { prefix, keys: drifted.slice(0, 10), count: drifted.length };
      log.warn(facts, 'the scheduler had drifted from the store, listing the cell again');
      this.#isOutdated = true;
      this.#watching.abort();
    } catch (error) {
      // A watch tells how far it is every few minutes, so the next time round the history is there.
      if (!(error instanceof CompactedError)) throw error;
    } finally {
      this.#changed = undefined;
    }
  }

  /** Those that did not differ in the same way when the prefix was compared before. */
  #newOf(prefix: string, changes: readonly Change[], held: ReadonlyMap<string, Revision>): Change[] {
    const told = (change: Change) =>
      change.type === 'put'
        ? `${change.entry.key} ${change.entry.modRevision}`
        : `${change.key} -${held.get(change.key)}`;
    const before = this.#differing.get(prefix);
    if (changes.length === 0) this.#differing.delete(prefix);
    else this.#differing.set(prefix, new Set(changes.map(told)));
    return changes.filter((change) => before?.has(told(change)) !== true);
  }

  /** Only their values tell which evaluations are open. Each is read once, for what ended stays as it is. */
  async #withoutEnded(entries: readonly Entry[], signal: AbortSignal): Promise<Entry[]> {
    const { store, columns } = this.#options;
    const listed = new Set(entries.map(({ key }) => key));
    for (const key of this.#ended) if (!listed.has(key)) this.#ended.delete(key);
    const known = new Map(columns.versions('evaluations'));
    const unknown = [...listed].filter((key) => !known.has(key) && !this.#ended.has(key));
    for (let from = 0; from < unknown.length; from += readAtOnce) {
      const keys = unknown.slice(from, from + readAtOnce);
      const { reads } = await store.transact({ then: keys.map((get) => ({ get })) }, { signal });
      for (const [at, key] of keys.entries()) if (!(reads[at] ?? []).some(isOpenEvaluation)) this.#ended.add(key);
    }
    return entries.filter(({ key }) => known.has(key) || !this.#ended.has(key));
  }
}

/** What has to be folded in so that the columns, which have seen `known`, hold exactly these entries. Empties `known`. */
function differences(entries: readonly Entry[], known: Map<string, Revision>, revision: Revision): Change[] {
  const changes: Change[] = [];
  for (const entry of entries) {
    const before = known.get(entry.key);
    known.delete(entry.key);
    const isSame = before !== undefined && before >>> 0 === entry.modRevision >>> 0;
    if (!isSame) changes.push({ type: 'put', entry });
  }
  for (const key of known.keys()) changes.push({ type: 'delete', key, modRevision: revision });
  return changes;
}

function isOpenEvaluation({ value }: Entry): boolean {
  return /"state":"(pending|blocked)"/.test(value);
}

function keyOf(change: Change): string {
  return change.type === 'put' ? change.entry.key : change.key;
}
