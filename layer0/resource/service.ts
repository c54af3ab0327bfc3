/** The resource service: typed objects in the store, changed by compare-and-set, with owners, names and finalizers. */
import { systemClock } from '@flynn/kit/clock';
import { FlynnError } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { deepFreeze } from '@flynn/store/codec';
import { openMirror } from '@flynn/store/mirror';
import type { Mirror } from '@flynn/store/mirror';
import type { Compare, Revision, Store } from '@flynn/store/store';
import { changed, draftOf } from './change.ts';
import type { NewResource, ResourceChange } from './change.ts';
import { nameKey, resourceKey, resourcePrefix } from './keys.ts';
import { conflictOf, failedCompare, mergePieces, removePiece, transactionOf, writePiece } from './piece.ts';
import type { Piece } from './piece.ts';
import { decodeResource, envelopeIn, readRecord, refusal, uidOf, unreadable } from './record.ts';
import { isOwnedBy, tombstonePiece } from './tombstone.ts';
import type { Owner, Resource, ResourceType } from './type.ts';
import { matches, watchResources } from './watch.ts';
import type { ResourceEvent, ResourceFilter, ResourceWatchOptions } from './watch.ts';

type Type<Spec, Status, SpecInput> = ResourceType<string, Spec, Status, SpecInput>;

/** More compares and operations for the same transaction. `next` is the state about to be written. */
export type Also<Spec, Status> = (next: Resource<Spec, Status>) => Piece;

export type ReadOptions = { signal?: AbortSignal };
export type WriteOptions<Spec, Status> = ReadOptions & {
  also?: Also<Spec, Status>;
  /** `conflict` if the resource is at any other revision; without it a change is repeated on the latest state. */
  expectRevision?: Revision;
  /** `conflict` if another object has the id now. */
  expectUid?: string;
};

/** A resource not yet written, with what writes it: pieces of several drafts make one transaction. */
export type Draft<Spec, Status> = Readonly<{ resource: Resource<Spec, Status>; piece: Piece }>;

const maxAttempts = 16;

/**
 * Errors: `not_found`, `invalid` (a schema or validateUpdate refused), `conflict` (a name or id is taken, an expected
 * revision or a condition of `also` does not hold, or 16 attempts were overtaken), and the store's. After `timeout` or
 * `unavailable` a write may have happened: repeat it with an id or revision of your own.
 */
export class ResourceService {
  readonly #store: Store;
  readonly #now: () => number;
  readonly #newId: () => string;
  readonly #log: Logger;

  constructor(options: { store: Store; now: () => number; newId: () => string; log: Logger }) {
    this.#store = options.store;
    this.#now = options.now;
    this.#newId = options.newId;
    this.#log = options.log;
  }

  /** A resource to be created, checked but not written. */
  draft<Spec, Status, SpecInput>(
    type: Type<Spec, Status, SpecInput>,
    input: NewResource<SpecInput, Status>,
  ): Draft<Spec, Status> {
    const resource = draftOf(type, input, { newId: this.#newId, at: this.#timestamp() });
    return { resource, piece: writePiece(type, undefined, resource) };
  }

  /** The owner has to be there, and is still there when this is written; without a uid it is the one there is now. */
  async create<Spec, Status, SpecInput>(
    type: Type<Spec, Status, SpecInput>,
    input: NewResource<SpecInput, Status>,
    options: ReadOptions & { also?: Also<Spec, Status> } = {},
  ): Promise<Resource<Spec, Status>> {
    const owned = input.owner === undefined ? undefined : await this.#resolveOwner(type, input.owner, options);
    const { resource, piece } = this.draft(type, owned === undefined ? input : { ...input, owner: owned.owner });
    // What else has to hold is told first: callers know their own conditions.
    const pieces = [piece, options.also?.(resource) ?? {}, owned === undefined ? {} : { compare: [owned.isThere] }];
    const revision = await this.commit(pieces, options);
    return Object.freeze({ ...resource, revision });
  }

  /** All of them or none, at the returned revision. */
  async createMany(
    drafts: readonly Draft<unknown, unknown>[],
    options: ReadOptions & { also?: Piece } = {},
  ): Promise<Revision> {
    return this.commit([...drafts.map((draft) => draft.piece), options.also ?? {}], options);
  }

  /** One transaction of several pieces; `conflict` saying which condition did not hold. */
  async commit(pieces: readonly Piece[], options: ReadOptions = {}): Promise<Revision> {
    const outcome = await this.#try(mergePieces(pieces), options);
    if (!outcome.succeeded) throw conflictOf(outcome.failed);
    return outcome.revision;
  }

  async find<Spec, Status, SpecInput>(
    type: Type<Spec, Status, SpecInput>,
    id: string,
    options: ReadOptions = {},
  ): Promise<Resource<Spec, Status> | undefined> {
    const entry = await this.#store.get(resourceKey(type.name, id), options);
    return entry === undefined ? undefined : decodeResource(type, entry);
  }

  async get<Spec, Status, SpecInput>(
    type: Type<Spec, Status, SpecInput>,
    id: string,
    options: ReadOptions = {},
  ): Promise<Resource<Spec, Status>> {
    const found = await this.find(type, id, options);
    if (found === undefined) throw missing(type.name, id);
    return found;
  }

  /** By id, else by name; `not_found` if it is neither. */
  async lookup<Spec, Status, SpecInput>(
    type: Type<Spec, Status, SpecInput>,
    nameOrId: string,
    options: ReadOptions = {},
  ): Promise<Resource<Spec, Status>> {
    const { reads } = await this.#store.transact(
      { then: [{ get: resourceKey(type.name, nameOrId) }, { get: nameKey(type.name, nameOrId) }] },
      options,
    );
    const byId = reads[0]?.[0];
    if (byId !== undefined) return decodeResource(type, byId);
    const id = reads[1]?.[0]?.value;
    const named = id === undefined ? undefined : await this.find(type, id, options);
    if (named === undefined) throw missing(type.name, nameOrId);
    return named;
  }

  /**
   * Sorted by id, which for ids made here is the order of creation. What cannot be read is logged and left out; whoever decides
   * by what is not there asks with `isStrict`: then it is thrown (`unreadable`), of an `owner` if it says that it is its. With
   * `onUnreadable` all that can be read is given, and each that would be thrown is told.
   */
  async list<Spec, Status, SpecInput>(
    type: Type<Spec, Status, SpecInput>,
    options: ReadOptions &
      ResourceFilter & {
        where?: (resource: Resource<Spec, Status>) => boolean;
        isStrict?: boolean;
        onUnreadable?: (error: FlynnError) => void;
      } = {},
  ): Promise<Resource<Spec, Status>[]> {
    const { where = () => true, isStrict = false, onUnreadable, owner } = options;
    const { entries } = await this.#store.list(resourcePrefix(type.name), options);
    const found: Resource<Spec, Status>[] = [];
    for (const entry of entries) {
      try {
        found.push(decodeResource(type, entry));
      } catch (error) {
        const isMeant = owner === undefined || isOwnedBy(envelopeIn(entry), owner);
        if (isMeant && onUnreadable !== undefined) onUnreadable(unreadable(entry.key, error));
        else if (isMeant && isStrict) throw unreadable(entry.key, error);
        else this.#log.error({ err: error, entry: entry.key }, 'a resource could not be read and is left out');
      }
    }
    return found.filter((resource) => matches(type, resource, options) && where(resource));
  }

  /** The objects there are, `current`, then changes: see watchResources. */
  watch<Spec, Status, SpecInput>(
    type: Type<Spec, Status, SpecInput>,
    options: ResourceWatchOptions,
  ): AsyncGenerator<ResourceEvent<Spec, Status>, void, undefined> {
    return watchResources({ store: this.#store, log: this.#log }, type, options);
  }

  /** Changes the spec. `change` may run several times; returning an equal spec writes nothing. */
  async update<Spec, Status, SpecInput>(
    type: Type<Spec, Status, SpecInput>,
    id: string,
    change: (current: Resource<Spec, Status>) => Spec,
    options: WriteOptions<Spec, Status> = {},
  ): Promise<Resource<Spec, Status>> {
    return this.change(type, id, (current) => ({ spec: change(current) }), options);
  }

  async updateStatus<Spec, Status, SpecInput>(
    type: Type<Spec, Status, SpecInput>,
    id: string,
    change: (current: Resource<Spec, Status>) => Status,
    options: WriteOptions<Spec, Status> = {},
  ): Promise<Resource<Spec, Status>> {
    return this.change(type, id, (current) => ({ status: change(current) }), options);
  }

  /** Changes several parts at once. A resource being deleted goes with its last finalizer. */
  async change<Spec, Status, SpecInput>(
    type: Type<Spec, Status, SpecInput>,
    id: string,
    change: (current: Resource<Spec, Status>) => ResourceChange<Spec, Status>,
    options: WriteOptions<Spec, Status> = {},
  ): Promise<Resource<Spec, Status>> {
    return this.#repeat(type, id, options, (current) => changed(type, current, change(current), this.#timestamp()));
  }

  async addFinalizer<Spec, Status, SpecInput>(
    type: Type<Spec, Status, SpecInput>,
    id: string,
    finalizer: string,
    options: WriteOptions<Spec, Status> = {},
  ): Promise<Resource<Spec, Status>> {
    const withIt = (current: Resource<Spec, Status>) => ({
      finalizers: [...new Set([...current.finalizers, finalizer])],
    });
    return this.change(type, id, withIt, options);
  }

  /** Taking the last one off a resource being deleted removes it. Idempotent, as long as the resource is there. */
  async removeFinalizer<Spec, Status, SpecInput>(
    type: Type<Spec, Status, SpecInput>,
    id: string,
    finalizer: string,
    options: WriteOptions<Spec, Status> = {},
  ): Promise<Resource<Spec, Status>> {
    const without = (current: Resource<Spec, Status>) => ({
      finalizers: current.finalizers.filter((f) => f !== finalizer),
    });
    return this.change(type, id, without, options);
  }

  /**
   * Removes it, or while it has finalizers marks it with `deletingSince`. Returns its last state. `change`: in the same write, of
   * how it is to go; where it is going already, as far as its type lets that be changed then.
   */
  async delete<Spec, Status, SpecInput>(
    type: Type<Spec, Status, SpecInput>,
    id: string,
    options: WriteOptions<Spec, Status> & {
      change?: (current: Resource<Spec, Status>) => ResourceChange<Spec, Status>;
    } = {},
  ): Promise<Resource<Spec, Status>> {
    const { change } = options;
    return this.#repeat(type, id, options, (found) => {
      const current = change === undefined ? found : changed(type, found, change(found), this.#timestamp());
      if (current.deletingSince !== undefined && current.finalizers.length > 0) return current;
      const at = this.#timestamp();
      return deepFreeze({ ...current, deletingSince: current.deletingSince ?? at, updatedAt: at });
    });
  }

  /** All resources of the type, followed. Close it when done. `onUnreadable`: told of the ids of those that cannot be read. */
  async mirror<Spec, Status, SpecInput>(
    type: Type<Spec, Status, SpecInput>,
    options: ReadOptions & { resyncMs?: number; onUnreadable?: (ids: ReadonlySet<string>) => void } = {},
  ): Promise<Mirror<Resource<Spec, Status>>> {
    return openMirror({
      ...options,
      store: this.#store,
      prefix: resourcePrefix(type.name),
      decode: (json, _key, entry) => readRecord(type, json, entry),
      log: this.#log,
    });
  }

  /** Read, decide, write if nobody was faster; else again. */
  async #repeat<Spec, Status, SpecInput>(
    type: Type<Spec, Status, SpecInput>,
    id: string,
    options: WriteOptions<Spec, Status>,
    decide: (current: Resource<Spec, Status>) => Resource<Spec, Status>,
  ): Promise<Resource<Spec, Status>> {
    for (let attempt = 1; ; attempt += 1) {
      const current = await this.get(type, id, options);
      const own: Compare = { key: resourceKey(type.name, id), modRevision: current.revision };
      if (options.expectRevision !== undefined && options.expectRevision !== current.revision) throw conflictOf(own);
      if (options.expectUid !== undefined && options.expectUid !== current.uid) throw replaced(type.name, id);
      const next = decide(current);
      const also = options.also?.(next) ?? {};
      const piece = mergePieces([pieceOf(type, current, next, this.#timestamp()), also]);
      if (next === current && (also.then ?? []).length === 0) return current;
      const outcome = await this.#try(piece, options);
      if (outcome.succeeded) return next === current ? current : Object.freeze({ ...next, revision: outcome.revision });
      const isOvertaken = outcome.failed === undefined || outcome.failed.key === own.key;
      if (!isOvertaken || attempt >= maxAttempts) throw conflictOf(outcome.failed);
      // Whoever was faster gets out of the way before the next try.
      await systemClock.sleep(Math.random() * 5 * attempt, options);
    }
  }

  async #resolveOwner(
    type: { name: string },
    owner: Owner,
    options: ReadOptions,
  ): Promise<{ owner: Owner; isThere: Compare }> {
    const key = resourceKey(owner.type, owner.id);
    const entry = await this.#store.get(key, options);
    const what = `${owner.type} ${owner.id}`;
    if (entry === undefined) {
      throw refusal(type.name, [{ path: 'owner', message: `there is no ${what} that could own it` }]);
    }
    const uid = uidOf(entry);
    if (owner.uid !== undefined && owner.uid !== uid) {
      throw refusal(type.name, [
        { path: 'owner', message: `${what} is another object now than the one that was meant: it was deleted` },
      ]);
    }
    return {
      owner: { type: owner.type, id: owner.id, uid },
      isThere: { key, createRevision: entry.createRevision },
    };
  }

  async #try(
    piece: Piece,
    options: ReadOptions,
  ): Promise<{ succeeded: true; revision: Revision } | { succeeded: false; failed: Compare | undefined }> {
    const result = await this.#store.transact(transactionOf(piece), options);
    if (result.succeeded) return { succeeded: true, revision: result.revision };
    return { succeeded: false, failed: failedCompare(piece, result.reads) };
  }

  #timestamp(): string {
    return new Date(this.#now()).toISOString();
  }
}

/** Unchanged: only still there. To be deleted and without finalizers: removed. Else written. */
function pieceOf<Spec, Status, SpecInput>(
  type: Type<Spec, Status, SpecInput>,
  current: Resource<Spec, Status>,
  next: Resource<Spec, Status>,
  at: string,
): Piece {
  if (next === current)
    return { compare: [{ key: resourceKey(type.name, current.id), modRevision: current.revision }] };
  if (next.deletingSince !== undefined && next.finalizers.length === 0) {
    return mergePieces([removePiece(type, current), tombstonePiece(type, current, at)]);
  }
  return writePiece(type, current, next);
}

function replaced(type: string, id: string): FlynnError {
  return new FlynnError('conflict', `${type} ${id} is another object now than the one that was meant: it was deleted`);
}

function missing(type: string, nameOrId: string): FlynnError {
  return new FlynnError('not_found', `there is no ${type} "${nameOrId}"`, { detail: { type, id: nameOrId } });
}
