/** The newest ended operations: an index of a bounded size over what may be very many records. */
import { pause, systemClock } from '@flynn/kit/clock';
import { FlynnError } from '@flynn/kit/errors';
import { raceAbort, withDeadline } from '@flynn/kit/retry';
import { TaskGroup, forever } from '@flynn/kit/tasks';
import type { Logger } from '@flynn/kit/log';
import { decodeJson } from '@flynn/store/codec';
import { CompactedError, RestoredError } from '@flynn/store/store';
import type { Entry, Revision, Store } from '@flynn/store/store';
import { z } from 'zod';
import { decodeOperation, historyKey, historyPrefix, historyShards } from './records.ts';
import type { OperationResource } from '../resources.ts';
import { pageOf } from '../paging.ts';
import { indexOf, insert } from './sorted.ts';

/** What is remembered of one; the rest is read when asked for. */
export type EndedOperation = Readonly<{ id: string; appId: string; pushId: string; endedAt: string }>;

const rowSchema = z.object({
  id: z.string(),
  spec: z.object({ appId: z.string(), pushId: z.string() }),
  status: z.object({ endedAt: z.string() }),
});

export function endedRow(entry: Entry): EndedOperation {
  const { id, spec, status } = decodeJson(rowSchema, entry.value, entry.key);
  return { id, appId: spec.appId, pushId: spec.pushId, endedAt: status.endedAt };
}

type Readable = Pick<Store, 'list' | 'watch' | 'transact'>;

export const maxIndexed = 10_000;
const readAtOnce = 100;
const loadMs = 60_000;
const betweenShardsMs = 20;
/** A controller that starts has other things to do. */
const usualQuietMs = 10_000;

/**
 * INVARIANTS. At most `max` rows, the newest by their end. A record never changes: a row is there or not. It loads when
 * somebody asks, else a while after it was opened, in the background and a shard at a time: who asks before that waits,
 * nobody else does.
 */
export class OperationHistory implements AsyncDisposable {
  readonly #store: Readable;
  readonly #log: Logger;
  readonly #max: number;
  readonly #tasks = new TaskGroup();
  readonly #loaded = Promise.withResolvers<void>();
  readonly #rows = new Map<string, EndedOperation>();
  /** Oldest first. */
  readonly #byEnd: EndedOperation[] = [];
  readonly #byApp = new Map<string, Set<EndedOperation>>();
  /** Ids of what is known to be live no longer, and has not come by the watch. */
  readonly #expected = new Set<string>();
  #revision: Revision | undefined;
  readonly #asked = Promise.withResolvers<void>();
  readonly #quietMs: number;
  #isAsked = false;

  /** `quietMs`: so long nothing is read unless somebody asks. */
  constructor(options: { store: Readable; log: Logger; max?: number; quietMs?: number }) {
    this.#store = options.store;
    this.#log = options.log;
    this.#max = options.max ?? maxIndexed;
    this.#quietMs = options.quietMs ?? usualQuietMs;
    this.#tasks.run('history', async (signal) => {
      await this.#untilAsked(signal);
      await forever('the history of operations', (s) => this.#follow(s), { signal, log: this.#log, maxMs: 5_000 });
    });
  }

  get size(): number {
    return this.#byEnd.length;
  }

  /** Of what is indexed the one that ended first, if the index is full: what ended before is not indexed. */
  get horizon(): EndedOperation | undefined {
    return this.#byEnd.length < this.#max ? undefined : this.#byEnd[0];
  }

  /** All that are indexed, newest first. */
  async rows(signal: AbortSignal): Promise<EndedOperation[]> {
    await this.#current(signal);
    return this.#byEnd.toReversed();
  }

  /** Newest first. */
  async rowsOfApp(appId: string, signal: AbortSignal): Promise<EndedOperation[]> {
    await this.#current(signal);
    return [...(this.#byApp.get(appId) ?? [])].toSorted(byEnd).toReversed();
  }

  /** The newest, newest first, with all that is kept of them. */
  async newest(options: {
    appId?: string;
    limit: number;
    /** Those that ended before this one; `conflict` if it is not here any more. */
    after?: string;
    signal: AbortSignal;
  }): Promise<OperationResource[]> {
    const { appId, limit, after, signal } = options;
    await this.#current(signal);
    const all = appId === undefined ? this.#byEnd.toReversed() : await this.rowsOfApp(appId, signal);
    const rows = pageOf(all, { limit, after }, ({ id }) => id);
    const entries = await this.#read(
      rows.map(({ id }) => id),
      signal,
    );
    return entries.map((entry) => decodeOperation(entry));
  }

  /** What ended in this very process, before the watch tells. */
  add({ id, spec, status }: OperationResource): void {
    this.#add({ id, appId: spec.appId, pushId: spec.pushId, endedAt: status.endedAt ?? '' });
  }

  /**
   * What was live and is so no longer, as is heard by another watch than that of the history: whoever asks finds it, though
   * this one is late.
   */
  expect(id: string): void {
    if (!this.#rows.has(id)) this.#expected.add(id);
  }

  async ready(signal: AbortSignal): Promise<void> {
    this.#isAsked = true;
    this.#asked.resolve();
    await raceAbort(this.#loaded.promise, withDeadline(loadMs, AbortSignal.any([signal, this.#tasks.signal])));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#tasks.stop();
  }

  /** Ready, and with what is expected: what is not in the store went with its app. */
  async #current(signal: AbortSignal): Promise<void> {
    await this.ready(signal);
    const missing = [...this.#expected];
    for (const entry of await this.#read(missing, signal)) this.#add(this.#rowOf(entry));
    for (const id of missing) this.#expected.delete(id);
  }

  async #read(ids: readonly string[], signal: AbortSignal): Promise<Entry[]> {
    const found: Entry[] = [];
    for (let at = 0; at < ids.length; at += readAtOnce) {
      const then = ids.slice(at, at + readAtOnce).map((id) => ({ get: historyKey(id) }));
      const { reads } = await this.#store.transact({ then }, { signal });
      found.push(...reads.flatMap(([entry]) => entry ?? []));
    }
    return found;
  }

  async #follow(signal: AbortSignal): Promise<void> {
    try {
      const after = this.#revision ?? (await this.#load(signal));
      this.#revision = after;
      this.#loaded.resolve();
      for await (const { changes, revision } of this.#store.watch(historyPrefix, { after, signal })) {
        for (const change of changes) {
          const id = idOf(change.type === 'put' ? change.entry.key : change.key);
          if (change.type === 'delete') this.#remove(id);
          // What ended here is known already.
          else if (!this.#rows.has(id)) this.#add(this.#rowOf(change.entry));
        }
        this.#revision = revision;
      }
    } catch (error) {
      if (!(error instanceof CompactedError) && !(error instanceof RestoredError)) throw error;
      this.#revision = undefined;
    }
  }

  /** Answers the revision of the first shard: what changed since is told once more, which changes nothing. */
  async #load(signal: AbortSignal): Promise<Revision> {
    for (const row of this.#byEnd.slice()) this.#remove(row.id);
    // All that is to be expected by now is in what is read from here on.
    this.#expected.clear();
    let first: Revision | undefined;
    for (const shard of historyShards) {
      // While nobody asks there is no hurry: what the controller is there for goes first.
      if (!this.#isAsked) await systemClock.sleep(betweenShardsMs, { signal });
      const { entries, revision } = await this.#store.list(shard, { signal });
      first ??= revision;
      for (const entry of entries) this.#add(this.#rowOf(entry));
    }
    if (first === undefined) throw new FlynnError('internal', 'the history of operations has no shards');
    return first;
  }

  async #untilAsked(signal: AbortSignal): Promise<void> {
    const ending = new AbortController();
    await Promise.race([this.#asked.promise, pause(this.#quietMs, AbortSignal.any([signal, ending.signal]))]);
    ending.abort();
  }

  /** One that cannot be read is told and left out. */
  #rowOf(entry: Entry): EndedOperation | undefined {
    try {
      return endedRow(entry);
    } catch (error) {
      this.#log.error({ err: error, entry: entry.key }, 'an ended operation could not be read and is left out');
      return undefined;
    }
  }

  #add(row: EndedOperation | undefined): void {
    if (row === undefined || this.#rows.has(row.id)) return;
    this.#expected.delete(row.id);
    const { horizon } = this;
    if (horizon !== undefined && byEnd(row, horizon) < 0) return;
    this.#rows.set(row.id, row);
    insert(this.#byEnd, row, byEnd);
    const ofApp = this.#byApp.get(row.appId);
    if (ofApp === undefined) this.#byApp.set(row.appId, new Set([row]));
    else ofApp.add(row);
    const [oldest] = this.#byEnd;
    if (this.#byEnd.length > this.#max && oldest !== undefined) this.#remove(oldest.id);
  }

  #remove(id: string): void {
    const row = this.#rows.get(id);
    if (row === undefined) return;
    this.#rows.delete(id);
    const at = indexOf(this.#byEnd, row, byEnd);
    if (at !== undefined) this.#byEnd.splice(at, 1);
    const ofApp = this.#byApp.get(row.appId);
    ofApp?.delete(row);
    if (ofApp?.size === 0) this.#byApp.delete(row.appId);
  }
}

function idOf(key: string): string {
  return key.slice(key.lastIndexOf('/') + 1);
}

/** Earlier first; of those that ended in the same millisecond any order, but always the same. */
export function byEnd(a: EndedOperation, b: EndedOperation): number {
  if (a.endedAt !== b.endedAt) return a.endedAt < b.endedAt ? -1 : 1;
  return a.id < b.id ? -1 : a.id > b.id ? 1 : 0;
}
