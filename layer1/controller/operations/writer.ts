/** Carries what happens to operations into the store: the state, the app's lock, the log's end, what depended on it, at once. */
import { hasCode } from '@flynn/kit/errors';
import { raceAbort } from '@flynn/kit/retry';
import { conflictOf, mergePieces, writePiece } from '@flynn/resource/piece';
import type { Piece } from '@flynn/resource/piece';
import { compareOf } from '@flynn/resource/record';
import type { Logger } from '@flynn/kit/log';
import type { Mirror } from '@flynn/store/mirror';
import type { Compare, Revision, Store } from '@flynn/store/store';
import { GroupCommit } from './group-commit.ts';
import type { Refused } from './group-commit.ts';
import { closeLog } from './log.ts';
import { decodeOperation, findOperation, getOperation, historyPut, liveKey, noOperation } from './records.ts';
import { advance, hasOperationEnded } from './state.ts';
import type { OperationEvent } from './state.ts';
import { operationType } from '../resources.ts';
import type { OperationResource } from '../resources.ts';

/** There while an operation of the app is given to a runner: builds and deployments of an app exclude each other. */
export function operationLock(appId: string): string {
  return `/flynn/operation-lock/${appId}`;
}

export type WriterDeps = {
  store: Store;
  operations: Mirror<OperationResource>;
  log: Logger;
  now: () => number;
  /** Told of each that ended here, at once. */
  onEnded: (operation: OperationResource) => void;
};

type Ending = { before: OperationResource; after: OperationResource };
type Options = { signal?: AbortSignal; epoch?: Compare };
export type Change = { after: OperationResource; ended: readonly OperationResource[]; piece: Piece };

const maxAttempts = 16;

/**
 * INVARIANTS. Every change compares with the state it was made from. What was written here is known here at once, before
 * the mirror tells of it.
 */
export class OperationWriter {
  readonly #deps: WriterDeps;
  readonly #commit: GroupCommit;
  /** Newer than the mirror; undefined: live no longer. */
  readonly #newer = new Map<string, { operation: OperationResource | undefined; revision: Revision }>();

  constructor(deps: WriterDeps) {
    this.#deps = deps;
    this.#commit = new GroupCommit(deps.store);
    deps.operations.onChange(({ key }, { revision }) => {
      if ((this.#newer.get(key)?.revision ?? Infinity) <= revision) this.#newer.delete(key);
    });
  }

  /**
   * The operation after the event, whether or not that changed it. Throws `conflict` where the event has no place, and
   * `not_found`. After `timeout` and `unavailable` it may have been written: all events may be repeated, but for `assign`.
   */
  async apply(id: string, event: OperationEvent, options: Options = {}): Promise<OperationResource> {
    for (let attempt = 1; ; attempt += 1) {
      const change = await this.#planFor(id, event, options);
      const { before } = change;
      if (change.after === before) return before;
      const answer = await this.#submit(change.piece, options);
      if (answer.isCommitted) return this.#written(change, answer.revision);
      this.#learn(answer);
      const isSeatLost = options.epoch !== undefined && !holdsStill(options.epoch, answer);
      const isLocked = event.type === 'assign' && answer.entries.get(operationLock(before.spec.appId)) !== undefined;
      if (isSeatLost || isLocked || attempt >= maxAttempts) throw conflictOf(options.epoch ?? compareOf(before));
    }
  }

  /** Nothing is refused for what is known here alone: another controller may have been told more a moment ago. */
  async #planFor(id: string, event: OperationEvent, options: Options): Promise<Change & { before: OperationResource }> {
    const known = await this.find(id, options);
    if (known === undefined) throw noOperation(id);
    try {
      return { before: known, ...(await this.plan(known, event, options)) };
    } catch (error) {
      if (!hasCode(error, 'conflict')) throw error;
      const { signal } = options;
      const before = await getOperation(this.#deps.store, id, signal === undefined ? {} : { signal });
      if (before.revision <= known.revision) throw error;
      return { before, ...(await this.plan(before, event, options)) };
    }
  }

  /** Newest first of what is known here; the store is asked only for what is not. */
  async find(id: string, options: { signal?: AbortSignal } = {}): Promise<OperationResource | undefined> {
    const newer = this.#newer.get(id);
    const known = newer === undefined ? this.#deps.operations.snapshot.entries.get(id)?.value : newer.operation;
    if (known !== undefined) return known;
    return findOperation(this.#deps.store, id, options.signal === undefined ? {} : { signal: options.signal });
  }

  async #submit(piece: Piece, { signal }: Options) {
    const answer = this.#commit.submit(piece);
    return signal === undefined ? answer : raceAbort(answer, signal);
  }

  /** What the event would come to: for those who write it along with something of theirs. */
  async plan(before: OperationResource, event: OperationEvent, options: Options = {}): Promise<Change> {
    const { now } = this.#deps;
    const status = advance(before, event, now());
    if (status === before.status) return { after: before, ended: [], piece: {} };
    const at = new Date(now()).toISOString();
    const after: OperationResource = { ...before, status, updatedAt: at };
    const epoch: Piece = options.epoch === undefined ? {} : { compare: [options.epoch] };
    if (!hasOperationEnded(status.state)) {
      return {
        after,
        ended: [],
        piece: mergePieces([writePiece(operationType, before, after), lockPiece(before, after), epoch]),
      };
    }
    const abandoned = status.state === 'complete' ? [] : await this.#abandoned(after, before, options);
    const all = [{ before, after }, ...abandoned];
    const pieces = all.map(({ before: was, after: is }) => endPiece(was, is));
    return { after, ended: all.map((one) => one.after), piece: mergePieces([...pieces, epoch]) };
  }

  /** What waits for it, directly or not, and now never runs. */
  async #abandoned(
    root: OperationResource,
    { status: { dependents = [] } }: OperationResource,
    options: Options,
  ): Promise<Ending[]> {
    const { kind } = root.spec;
    const reason = `the ${kind} before it ${root.status.state === 'cancelled' ? 'was cancelled' : 'failed'}`;
    const found = new Map<string, Ending>();
    const left = dependents.map((id) => ({ id, because: root.id }));
    for (let next = left.pop(); next !== undefined; next = left.pop()) {
      const { id, because } = next;
      const before = found.has(id) ? undefined : await this.find(id, options);
      if (before === undefined || hasOperationEnded(before.status.state)) continue;
      if (before.spec.mayFail?.includes(because) === true) continue;
      const status = advance(before, { type: 'abandon', reason }, this.#deps.now());
      found.set(id, { before, after: { ...before, status, updatedAt: root.updatedAt } });
      left.push(...(before.status.dependents ?? []).map((other) => ({ id: other, because: id })));
    }
    return [...found.values()];
  }

  #written({ after, ended }: Change, revision: Revision): OperationResource {
    const { log, onEnded, operations } = this.#deps;
    const isKnown = operations.snapshot.revision >= revision;
    for (const operation of ended) {
      if (!isKnown) this.#know(operation.id, undefined, revision);
      onEnded(operation);
      const { id, spec, status } = operation;
      log.info({ operation: id, app: spec.appId, state: status.state, error: status.error }, 'operation ended');
    }
    const written = { ...after, revision };
    if (ended.length === 0 && !isKnown) this.#know(after.id, written, revision);
    return written;
  }

  #learn({ entries, revision }: Refused): void {
    const prefix = liveKey('');
    for (const [key, entry] of entries) {
      if (!key.startsWith(prefix)) continue;
      const id = key.slice(prefix.length);
      const mirrored = this.#deps.operations.snapshot.entries.get(id);
      const isMirrored =
        entry === undefined ? mirrored === undefined : (mirrored?.modRevision ?? 0) >= entry.modRevision;
      if (isMirrored) this.#newer.delete(id);
      else if (entry === undefined) this.#know(id, undefined, revision);
      else this.#know(id, decodeOperation(entry), entry.modRevision);
    }
  }

  /** Answers may come in another order than what they tell of. */
  #know(id: string, operation: OperationResource | undefined, revision: Revision): void {
    if ((this.#newer.get(id)?.revision ?? 0) < revision) this.#newer.set(id, { operation, revision });
  }
}

/** Whoever gives an operation of the app to a runner takes the lock, and it is let go with the operation. */
function lockPiece(before: OperationResource, after: OperationResource): Piece {
  const key = operationLock(before.spec.appId);
  if (before.status.state === 'queued' && after.status.state === 'waiting')
    return { compare: [{ key, modRevision: 0 }], then: [{ put: key, value: JSON.stringify(before.id) }] };
  if (after.status.state === 'queued' && before.status.state !== 'queued') return { then: [{ delete: key }] };
  return {};
}

function endPiece(before: OperationResource, after: OperationResource): Piece {
  const { id, spec, status } = before;
  return {
    compare: [compareOf(before)],
    then: [
      { delete: liveKey(id) },
      historyPut(after),
      closeLog(id),
      ...(status.state === 'queued' ? [] : [{ delete: operationLock(spec.appId) }]),
    ],
  };
}

function holdsStill(epoch: Compare, { entries }: Refused): boolean {
  const entry = entries.get(epoch.key);
  if ('modRevision' in epoch) return (entry?.modRevision ?? 0) === epoch.modRevision;
  return (entry?.createRevision ?? 0) === epoch.createRevision;
}

/** Somebody else was faster, or it is gone: for callers to whom that is as good. */
export function ignoreOvertaken(error: unknown): void {
  if (!hasCode(error, 'conflict', 'not_found')) throw error;
}
