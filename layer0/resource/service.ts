/** The resource service: typed objects in the store, changed by compare-and-set, with owners, names and finalizers. */
import { systemClock } from '@flynn/kit/clock';
import { FlynnError } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { deepFreeze, encodeJson } from '@flynn/store/codec';
import { openMirror } from '@flynn/store/mirror';
import type { Mirror } from '@flynn/store/mirror';
import type { Compare, Revision, Store } from '@flynn/store/store';
import { checkId, nameKey, resourceKey, resourcePrefix } from './keys.ts';
import { conflictOf, failedCompare, mergePieces, removePiece, transactionOf, writePiece } from './piece.ts';
import type { Piece } from './piece.ts';
import { decodeResource, parseSpec, parseStatus, readRecord } from './record.ts';
import type { Owner, Resource, ResourceType } from './type.ts';

type Type<Spec, Status, SpecInput> = ResourceType<string, Spec, Status, SpecInput>;

/** More compares and operations for the same transaction. `next` is the state about to be written. */
export type Also<Spec, Status> = (next: Resource<Spec, Status>) => Piece;

export type ReadOptions = { signal?: AbortSignal };
export type WriteOptions<Spec, Status> = ReadOptions & {
  also?: Also<Spec, Status>;
  /** `conflict` if the resource is at any other revision; without it a change is repeated on the latest state. */
  expectRevision?: Revision;
};

export type NewResource<SpecInput, Status> = {
  /** Default: a new time-ordered one. */
  id?: string;
  spec: SpecInput;
  status?: Status;
  owner?: Owner;
  labels?: Readonly<Record<string, string>>;
  finalizers?: readonly string[];
};

/** A resource not yet written, with what writes it: pieces of several drafts make one transaction. */
export type Draft<Spec, Status> = Readonly<{ resource: Resource<Spec, Status>; piece: Piece }>;

/** What a change sets; what it leaves out stays. */
export type ResourceChange<Spec, Status> = {
  spec?: Spec;
  status?: Status;
  labels?: Readonly<Record<string, string>>;
  finalizers?: readonly string[];
};

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
    const id = input.id ?? this.#newId();
    checkId(type.name, id);
    const at = this.#timestamp();
    const resource: Resource<Spec, Status> = deepFreeze({
      type: type.name,
      id,
      revision: 0,
      generation: 1,
      createdAt: at,
      updatedAt: at,
      ...(input.owner === undefined ? {} : { owner: { ...input.owner } }),
      labels: { ...input.labels },
      finalizers: [...(input.finalizers ?? [])],
      spec: parseSpec(type, id, input.spec),
      status: parseStatus(type, id, input.status ?? type.initialStatus()),
    });
    return { resource, piece: writePiece(type, undefined, resource) };
  }

  async create<Spec, Status, SpecInput>(
    type: Type<Spec, Status, SpecInput>,
    input: NewResource<SpecInput, Status>,
    options: ReadOptions & { also?: Also<Spec, Status> } = {},
  ): Promise<Resource<Spec, Status>> {
    const { resource, piece } = this.draft(type, input);
    const revision = await this.commit([piece, options.also?.(resource) ?? {}], options);
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

  /** Sorted by id, which for ids made here is the order of creation. What cannot be read is logged and left out. */
  async list<Spec, Status, SpecInput>(
    type: Type<Spec, Status, SpecInput>,
    options: ReadOptions & { owner?: Owner; where?: (resource: Resource<Spec, Status>) => boolean } = {},
  ): Promise<Resource<Spec, Status>[]> {
    const { owner, where = () => true } = options;
    const { entries } = await this.#store.list(resourcePrefix(type.name), options);
    const found: Resource<Spec, Status>[] = [];
    for (const entry of entries) {
      try {
        found.push(decodeResource(type, entry));
      } catch (error) {
        this.#log.error({ err: error, entry: entry.key }, 'a resource could not be read and is left out');
      }
    }
    const isOwned = (one: Owner | undefined) =>
      owner === undefined || (one?.type === owner.type && one.id === owner.id);
    return found.filter((resource) => isOwned(resource.owner) && where(resource));
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

  /** Changes any of spec, status, labels and finalizers at once. A resource being deleted goes with its last finalizer. */
  async change<Spec, Status, SpecInput>(
    type: Type<Spec, Status, SpecInput>,
    id: string,
    change: (current: Resource<Spec, Status>) => ResourceChange<Spec, Status>,
    options: WriteOptions<Spec, Status> = {},
  ): Promise<Resource<Spec, Status>> {
    return this.#repeat(type, id, options, (current) => this.#apply(type, current, change(current)));
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

  /** Removes it, or while it has finalizers marks it with `deletingSince`. Returns its last state. */
  async delete<Spec, Status, SpecInput>(
    type: Type<Spec, Status, SpecInput>,
    id: string,
    options: WriteOptions<Spec, Status> = {},
  ): Promise<Resource<Spec, Status>> {
    return this.#repeat(type, id, options, (current) => {
      if (current.deletingSince !== undefined && current.finalizers.length > 0) return current;
      const at = this.#timestamp();
      return deepFreeze({ ...current, deletingSince: current.deletingSince ?? at, updatedAt: at });
    });
  }

  /** All resources of the type, followed. Close it when done. */
  async mirror<Spec, Status, SpecInput>(
    type: Type<Spec, Status, SpecInput>,
    options: ReadOptions & { resyncMs?: number } = {},
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
      const next = decide(current);
      const also = options.also?.(next) ?? {};
      const piece = mergePieces([pieceOf(type, current, next), also]);
      if (next === current && (also.then ?? []).length === 0) return current;
      const outcome = await this.#try(piece, options);
      if (outcome.succeeded) return next === current ? current : Object.freeze({ ...next, revision: outcome.revision });
      const isOvertaken = outcome.failed === undefined || outcome.failed.key === own.key;
      if (!isOvertaken || attempt >= maxAttempts) throw conflictOf(outcome.failed);
      // Whoever was faster gets out of the way before the next try.
      await systemClock.sleep(Math.random() * 5 * attempt, options);
    }
  }

  #apply<Spec, Status, SpecInput>(
    type: Type<Spec, Status, SpecInput>,
    current: Resource<Spec, Status>,
    change: ResourceChange<Spec, Status>,
  ): Resource<Spec, Status> {
    const spec = change.spec === undefined ? current.spec : parseSpec(type, current.id, change.spec);
    const status = change.status === undefined ? current.status : parseStatus(type, current.id, change.status);
    const { labels = current.labels, finalizers = current.finalizers } = change;
    const isSpecChanged = encodeJson(spec) !== encodeJson(current.spec);
    if (isSpecChanged) type.validateUpdate?.(current.spec, spec);
    const isOtherChanged =
      encodeJson([status, labels, finalizers]) !== encodeJson([current.status, current.labels, current.finalizers]);
    if (!isSpecChanged && !isOtherChanged) return current;
    return deepFreeze({
      ...current,
      spec,
      status,
      labels: { ...labels },
      finalizers: [...finalizers],
      generation: current.generation + (isSpecChanged ? 1 : 0),
      updatedAt: this.#timestamp(),
    });
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
): Piece {
  if (next === current)
    return { compare: [{ key: resourceKey(type.name, current.id), modRevision: current.revision }] };
  if (next.deletingSince !== undefined && next.finalizers.length === 0) return removePiece(type, current);
  return writePiece(type, current, next);
}

function missing(type: string, nameOrId: string): FlynnError {
  return new FlynnError('not_found', `there is no ${type} "${nameOrId}"`, { detail: { type, id: nameOrId } });
}
