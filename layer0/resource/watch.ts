/** A type's objects as they are, a mark, then every change in order: what lists on a screen and remote caches are made of. */
import { hasCode } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import type { Change, Entry, Revision, Store } from '@flynn/store/store';
import { resourcePrefix } from './keys.ts';
import { decodeResource } from './record.ts';
import { isOwnedBy } from './tombstone.ts';
import type { AnyType, Owner, Resource, ResourceType } from './type.ts';

/** Which objects: all conditions hold. */
export type ResourceFilter = Readonly<{
  /** By id or name: one object. */
  object?: string;
  owner?: Owner;
  namePrefix?: string;
  labels?: Readonly<Record<string, string>>;
}>;

export type ResourceEvent<Spec, Status> = Readonly<{
  /** `revision`: everything up to it has been told. Missing while more of the same revision is to come. */
  resumeAfter?: Revision;
}> &
  Readonly<
    | { type: 'put'; resource: Resource<Spec, Status> }
    /** The end of the objects as they were; changes follow. */
    | { type: 'current' }
    /** With the last state it had. Also when it is changed so that the filter leaves it out. */
    | { type: 'delete'; resource: Resource<Spec, Status> }
  >;

export type ResourceWatchOptions = {
  signal: AbortSignal;
  filter?: ResourceFilter;
  /** Go on from there: only changes are told, and no mark. */
  after?: Revision;
  /** A change of an object of these types is told as a `put` of the object that owns it. */
  withOwned?: readonly AnyType[];
};

type Told<Spec, Status> = { resource: Resource<Spec, Status>; type: 'put' | 'delete'; revision: Revision };

/**
 * Whoever reads an object after an event of it gets that state or a later one. Ends when the signal aborts; throws
 * CompactedError or RestoredError (`conflict`) when what followed is no longer known: begin again, without `after`.
 * What cannot be read is logged and left out.
 */
export async function* watchResources<Spec, Status, SpecInput>(
  from: { store: Store; log: Logger },
  type: ResourceType<string, Spec, Status, SpecInput>,
  options: ResourceWatchOptions,
): AsyncGenerator<ResourceEvent<Spec, Status>, void, undefined> {
  const { store } = from;
  const { signal, filter = {}, after, withOwned = [] } = options;
  const seen = new Seen(from.log, type, filter, withOwned);
  // Deletions tell the last state, so what was there when it began has to be known.
  const listing = await store.list(resourcePrefix(type.name), {
    signal,
    ...(after === undefined ? {} : { revision: after }),
  });
  for (const entry of listing.entries) {
    const told = seen.put(entry);
    if (told !== undefined && after === undefined) yield { type: 'put', resource: told.resource };
  }
  for (const owned of withOwned) {
    const { entries } = await store.list(resourcePrefix(owned.name), { signal, revision: listing.revision });
    for (const entry of entries) seen.relatedPut(owned, entry);
  }
  if (after === undefined) yield { type: 'current', resumeAfter: listing.revision };
  const prefix = withOwned.length === 0 ? resourcePrefix(type.name) : resourcePrefix('').slice(0, -1);
  for await (const batch of store.watch(prefix, { after: listing.revision, signal })) {
    const told = batch.changes.flatMap((change) => seen.change(change) ?? []);
    for (const [index, { resource, type: what, revision }] of told.entries()) {
      const isLast = told[index + 1]?.revision !== revision;
      yield { type: what, resource, ...(isLast ? { resumeAfter: revision } : {}) };
    }
  }
}

/** INVARIANT. `#known` holds exactly the objects that were told, in the state that was told. */
class Seen<Spec, Status, SpecInput> {
  readonly #known = new Map<string, Resource<Spec, Status>>();
  /** Keys of owned objects → their owners' ids. */
  readonly #ownerIds = new Map<string, string>();
  readonly #log: Logger;
  readonly #type: ResourceType<string, Spec, Status, SpecInput>;
  readonly #prefix: string;
  readonly #filter: ResourceFilter;
  readonly #owned: readonly { type: AnyType; prefix: string }[];

  constructor(
    log: Logger,
    type: ResourceType<string, Spec, Status, SpecInput>,
    filter: ResourceFilter,
    owned: readonly AnyType[],
  ) {
    this.#log = log;
    this.#type = type;
    this.#prefix = resourcePrefix(type.name);
    this.#filter = filter;
    this.#owned = owned.map((one) => ({ type: one, prefix: resourcePrefix(one.name) }));
  }

  change(change: Change): Told<Spec, Status> | undefined {
    const key = change.type === 'put' ? change.entry.key : change.key;
    if (key.startsWith(this.#prefix)) {
      return change.type === 'put' ? this.put(change.entry) : this.#delete(key, change.modRevision);
    }
    const owned = this.#owned.find(({ prefix }) => key.startsWith(prefix));
    if (owned === undefined) return undefined;
    const revision = change.type === 'put' ? change.entry.modRevision : change.modRevision;
    if (change.type === 'put') this.relatedPut(owned.type, change.entry);
    const resource = this.#known.get(this.#prefix + (this.#ownerIds.get(key) ?? ''));
    if (change.type === 'delete') this.#ownerIds.delete(key);
    return resource === undefined ? undefined : { type: 'put', resource, revision };
  }

  put(entry: Entry): Told<Spec, Status> | undefined {
    const resource = this.#decode(this.#type, entry);
    if (resource === undefined) return undefined;
    const before = this.#known.get(entry.key);
    if (matches(this.#type, resource, this.#filter)) {
      this.#known.set(entry.key, resource);
      return { type: 'put', resource, revision: entry.modRevision };
    }
    if (before === undefined) return undefined;
    this.#known.delete(entry.key);
    return { type: 'delete', resource: before, revision: entry.modRevision };
  }

  relatedPut(type: AnyType, entry: Entry): void {
    const owner = this.#decode(type, entry)?.owner;
    if (owner?.type === this.#type.name) this.#ownerIds.set(entry.key, owner.id);
  }

  #delete(key: string, revision: Revision): Told<Spec, Status> | undefined {
    const resource = this.#known.get(key);
    this.#known.delete(key);
    return resource === undefined ? undefined : { type: 'delete', resource, revision };
  }

  #decode<S, T, I>(type: ResourceType<string, S, T, I>, entry: Entry): Resource<S, T> | undefined {
    try {
      return decodeResource(type, entry);
    } catch (error) {
      if (!hasCode(error, 'invalid')) throw error;
      this.#log.error({ err: error, entry: entry.key }, 'a resource could not be read and is left out');
      return undefined;
    }
  }
}

export function matches<Spec, Status, SpecInput>(
  type: ResourceType<string, Spec, Status, SpecInput>,
  resource: Resource<Spec, Status>,
  { object, owner, namePrefix, labels = {} }: ResourceFilter,
): boolean {
  const name = nameOf(type, resource);
  if (object !== undefined && object !== resource.id && object !== name) return false;
  if (owner !== undefined && !isOwnedBy(resource, owner)) return false;
  if (!Object.entries(labels).every(([label, value]) => resource.labels[label] === value)) return false;
  return namePrefix === undefined || name.startsWith(namePrefix);
}

/** What people call it: its name, else its id. */
export function nameOf<Spec, Status, SpecInput>(
  type: ResourceType<string, Spec, Status, SpecInput>,
  resource: Pick<Resource<Spec, Status>, 'id' | 'spec'>,
): string {
  return type.nameOf?.(resource.spec) ?? resource.id;
}
