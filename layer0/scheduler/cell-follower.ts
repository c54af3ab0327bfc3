/** Keeps columns of the cell in step with the store: listed, watched, and compared with it now and then. */
import { systemClock } from '@flynn/kit/clock';
import type { Logger } from '@flynn/kit/log';
import { retry } from '@flynn/kit/retry';
import { forever } from '@flynn/kit/tasks';
import type { TaskGroup } from '@flynn/kit/tasks';
import { CompactedError } from '@flynn/store/store';
import type { Change, ChangeBatch, Entry, Revision, Store } from '@flynn/store/store';
import { cellPrefix } from './cell.ts';
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

/**
 * INVARIANTS. The columns' revision never goes back. What a comparison lists is of exactly the columns' revision; keys that
 * change while it is listed are left out of it.
 */
export class CellFollower {
  readonly #options: CellFollowerOptions;
  /** Keys changed while a comparison waits for its listing. */
  #changed: Set<string> | undefined;
  #nextHost = 0;
  #driftCount = 0;

  constructor(options: CellFollowerOptions) {
    this.#options = options;
  }

  /** How many entries comparisons have found different so far: watches that lost something. */
  get driftCount(): number {
    return this.#driftCount;
  }

  /** Resolves with the cell as it is folded in; waits up to 30 s for a store that is not there yet. */
  async open(signal: AbortSignal): Promise<void> {
    await retry((limited) => this.#relist(limited), { what: 'listing the cell', deadlineMs: 30_000, signal });
  }

  follow(tasks: TaskGroup, outer: AbortSignal): void {
    const { log } = this.#options;
    const pace = { log, minMs: 100, maxMs: 5_000 };
    const run = (name: string, step: (signal: AbortSignal) => Promise<void>) =>
      tasks.run(name, (inner) => forever(name, step, { ...pace, signal: AbortSignal.any([inner, outer]) }));
    run("the scheduler's watch of the cell", (signal) => this.#watch(signal));
    run("the scheduler's resync of the cell", (signal) => this.#resyncSoon(signal));
  }

  async #watch(signal: AbortSignal): Promise<void> {
    const { store, columns, log } = this.#options;
    try {
      for await (const batch of store.watch(cellPrefix, { after: columns.revision, signal })) this.#fold(batch);
    } catch (error) {
      if (!(error instanceof CompactedError)) throw error;
      log.info({ after: columns.revision }, 'the history behind the scheduler was compacted, listing the cell again');
      await this.#relist(signal);
    }
  }

  #fold(batch: ChangeBatch): void {
    if (this.#changed !== undefined) for (const change of batch.changes) this.#changed.add(keyOf(change));
    this.#options.fold(batch);
  }

  /** Everything at one revision, one kind after the other, and what is not there any more let go. */
  async #relist(signal: AbortSignal): Promise<void> {
    const { store, columns } = this.#options;
    let revision: Revision | undefined;
    for (const kind of cellKinds) {
      const at = revision === undefined ? {} : { revision };
      const listing = await store.list(`${cellPrefix}${kind}/`, { signal, ...at });
      revision = listing.revision;
      const known = new Map(this.#versions(kind));
      // The revision is reached with the last of them.
      this.#fold({ revision: columns.revision, changes: this.#differences(listing.entries, known, revision) });
    }
    this.#fold({ revision: revision ?? columns.revision, changes: [] });
  }

  #versions(kind: CellKind): Iterable<readonly [string, Revision]> {
    const { columns } = this.#options;
    if (kind !== 'assignments' && kind !== 'status') return columns.versions(kind);
    const all: (readonly [string, Revision])[] = [];
    for (const hostId of columns.knownHosts()) all.push(...columns.versions(kind, hostId));
    return all;
  }

  async #resyncSoon(signal: AbortSignal): Promise<void> {
    // Spread out, so that a fleet started at once does not list at once.
    await systemClock.sleep((this.#options.resyncMs ?? 60_000) * (0.75 + Math.random() / 2), { signal });
    for (const kind of cellKinds) {
      if (kind !== 'assignments' && kind !== 'status') await this.#compare(kind, '', signal);
    }
    const hosts = [...this.#options.columns.knownHosts()];
    for (let count = 0; count < Math.min(hostsPerResync, hosts.length); count += 1) {
      const hostId = hosts[this.#nextHost % hosts.length] ?? '';
      this.#nextHost += 1;
      await this.#compare('assignments', hostId, signal);
      await this.#compare('status', hostId, signal);
    }
  }

  async #compare(kind: CellKind, hostId: string, signal: AbortSignal): Promise<void> {
    const { store, columns, log } = this.#options;
    const prefix = `${cellPrefix}${kind}/${hostId === '' ? '' : `${hostId}/`}`;
    const changed = new Set<string>();
    this.#changed = changed;
    try {
      const listing = await store.list(prefix, { revision: columns.revision, signal });
      const known = new Map(columns.versions(kind, hostId));
      const drifted = this.#differences(listing.entries, known, listing.revision).filter(
        (change) => !changed.has(keyOf(change)),
      );
      if (drifted.length === 0) return;
      this.#driftCount += drifted.length;
      const keys = drifted.slice(0, 10).map(keyOf);
      log.warn({ prefix, keys, count: drifted.length }, 'the scheduler had drifted from the store, healing it');
      this.#options.fold({ revision: columns.revision, changes: drifted });
    } catch (error) {
      // History is compacted far behind the present: next time round it is there.
      if (!(error instanceof CompactedError)) throw error;
    } finally {
      this.#changed = undefined;
    }
  }

  /** What has to be folded in so that the columns hold exactly these entries. */
  #differences(entries: readonly Entry[], known: Map<string, Revision>, revision: Revision): Change[] {
    const changes: Change[] = [];
    for (const entry of entries) {
      const before = known.get(entry.key);
      known.delete(entry.key);
      const isSame = before !== undefined && before >>> 0 === entry.modRevision >>> 0;
      if (!isSame && (before !== undefined || this.#isKept(entry))) changes.push({ type: 'put', entry });
    }
    for (const key of known.keys()) changes.push({ type: 'delete', key, modRevision: revision });
    return changes;
  }

  /** Ended evaluations and what does not decode are not in the columns, and not missing there. */
  #isKept({ key, value }: Entry): boolean {
    if (this.#options.columns.isFaulty(key)) return false;
    return !key.startsWith(`${cellPrefix}evaluations/`) || /"state":"(pending|blocked)"/.test(value);
  }
}

function keyOf(change: Change): string {
  return change.type === 'put' ? change.entry.key : change.key;
}
