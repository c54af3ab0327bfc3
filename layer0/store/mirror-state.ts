/** What does a mirror hold after a batch or a listing, and what changed by it? */
import type { Logger } from '@flynn/kit/log';
import { deepFreeze, parseJson } from './codec.ts';
import { PersistentMap } from './persistent-map.ts';
import type { ChangeBatch, Entry, Listing, Revision } from './store.ts';

export type Versioned<T> = Readonly<{ value: T; modRevision: Revision; createRevision: Revision }>;

/** Keys are without the mirror's prefix. Iteration is in no particular order: sort where order matters. */
export type Snapshot<T> = Readonly<{ revision: Revision; entries: ReadonlyMap<string, Versioned<T>> }>;

/** No `before`: created. No `after`: deleted. */
export type MirrorChange<T> = Readonly<{ key: string; before?: T; after?: T }>;

export type MirrorState<T> = Readonly<{
  snapshot: Snapshot<T>;
  entries: PersistentMap<Versioned<T>>;
  /** Entries that could not be decoded, by key, with their modRevision. */
  unreadable: ReadonlyMap<string, Revision>;
}>;

export type Decoding<T> = {
  prefix: string;
  decode: (json: unknown, key: string, entry: Entry) => T;
  /** What stands for an entry that could not be decoded; without it such an entry is left out. */
  instead?: (key: string) => T;
  log: Logger;
};

type Folded<T> = { state: MirrorState<T>; changes: readonly MirrorChange<T>[] };
type Update = Readonly<{ key: string; entry: Entry | undefined }>;

export function emptyState<T>(): MirrorState<T> {
  const entries = PersistentMap.empty<Versioned<T>>();
  return { snapshot: Object.freeze({ revision: 0, entries }), entries, unreadable: new Map() };
}

/** Changes a listing has brought already are left out. */
export function foldBatch<T>(state: MirrorState<T>, batch: ChangeBatch, decoding: Decoding<T>): Folded<T> {
  const known = state.snapshot.revision;
  if (batch.revision <= known) return { state, changes: [] };
  const updates: Update[] = [];
  for (const change of batch.changes) {
    const entry = change.type === 'put' ? change.entry : undefined;
    const modRevision = change.type === 'put' ? change.entry.modRevision : change.modRevision;
    if (modRevision <= known) continue;
    const key = change.type === 'put' ? change.entry.key : change.key;
    updates.push({ key: key.slice(decoding.prefix.length), entry });
  }
  return foldUpdates(state, batch.revision, updates, decoding);
}

/** A listing older than the state tells nothing new. One at the same revision heals it. */
export function foldListing<T>(state: MirrorState<T>, listing: Listing, decoding: Decoding<T>): Folded<T> {
  if (listing.revision < state.snapshot.revision) return { state, changes: [] };
  const updates: Update[] = [];
  const listed = new Set<string>();
  for (const entry of listing.entries) {
    const key = entry.key.slice(decoding.prefix.length);
    listed.add(key);
    if (knownRevision(state, key) !== entry.modRevision) updates.push({ key, entry });
  }
  for (const key of [...state.entries.keys(), ...state.unreadable.keys()]) {
    if (!listed.has(key)) updates.push({ key, entry: undefined });
  }
  return foldUpdates(state, listing.revision, updates, decoding);
}

/** A listing of a store that is not the one the state is of: equal revisions mean nothing, everything is told again. */
export function foldRestored<T>(state: MirrorState<T>, listing: Listing, decoding: Decoding<T>): Folded<T> {
  const updates: Update[] = listing.entries.map((entry) => ({ key: entry.key.slice(decoding.prefix.length), entry }));
  const listed = new Set(updates.map(({ key }) => key));
  for (const key of [...state.entries.keys(), ...state.unreadable.keys()]) {
    if (!listed.has(key)) updates.push({ key, entry: undefined });
  }
  return foldUpdates(state, listing.revision, updates, decoding);
}

/** Keys whose revision in the state differs from the listing of the same revision. */
export function findDrift<T>(state: MirrorState<T>, listing: Listing, prefix: string): string[] {
  const listed = new Map(listing.entries.map((entry) => [entry.key.slice(prefix.length), entry.modRevision]));
  const drifted = [...listed].filter(([key, revision]) => knownRevision(state, key) !== revision).map(([key]) => key);
  const gone = [...state.entries.keys(), ...state.unreadable.keys()].filter((key) => !listed.has(key));
  return [...drifted, ...gone].sort();
}

function knownRevision<T>(state: MirrorState<T>, key: string): Revision | undefined {
  return state.entries.get(key)?.modRevision ?? state.unreadable.get(key);
}

function foldUpdates<T>(
  state: MirrorState<T>,
  revision: Revision,
  updates: readonly Update[],
  decoding: Decoding<T>,
): Folded<T> {
  const changes: MirrorChange<T>[] = [];
  const next = new Map<string, Versioned<T> | undefined>();
  let unreadable: Map<string, Revision> | undefined;
  for (const { key, entry } of updates) {
    const before = next.has(key) ? next.get(key) : state.entries.get(key);
    const after = entry === undefined ? undefined : decodeEntry(key, entry, decoding);
    if (entry !== undefined && after === undefined) {
      unreadable ??= new Map(state.unreadable);
      unreadable.set(key, entry.modRevision);
    } else if ((unreadable ?? state.unreadable).has(key)) {
      unreadable ??= new Map(state.unreadable);
      unreadable.delete(key);
    }
    next.set(key, after);
    if (before === undefined && after === undefined) continue;
    changes.push(
      Object.freeze({
        key,
        ...(before === undefined ? {} : { before: before.value }),
        ...(after === undefined ? {} : { after: after.value }),
      }),
    );
  }
  const entries = changes.length === 0 ? state.entries : state.entries.with(next);
  const snapshot = Object.freeze({ revision, entries });
  return { state: { snapshot, entries, unreadable: unreadable ?? state.unreadable }, changes };
}

function decodeEntry<T>(key: string, entry: Entry, { decode, instead, log }: Decoding<T>): Versioned<T> | undefined {
  const { modRevision, createRevision } = entry;
  try {
    const value = deepFreeze(decode(parseJson(entry.value, entry.key), key, entry));
    return Object.freeze({ value, modRevision, createRevision });
  } catch (error) {
    const what = `an entry could not be read${instead === undefined ? ' and is left out' : ''}`;
    log.error({ err: error, entry: entry.key, revision: modRevision }, what);
    if (instead === undefined) return undefined;
    return Object.freeze({ value: deepFreeze(instead(key)), modRevision, createRevision });
  }
}
