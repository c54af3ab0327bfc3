/** Writes new operations down: all of them or none, with what they depend on and whose place they take. */
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { conflictOf, failedCompare, mergePieces, transactionOf, writePiece } from '@flynn/resource/piece';
import type { Piece } from '@flynn/resource/piece';
import { compareOf } from '@flynn/resource/record';
import type { Deps } from '../deps.ts';
import { planCreation } from './creation.ts';
import type { Creation, KnownOperation, NewOperation } from './creation.ts';
import { findOperation, historyKey } from './records.ts';
import { operationType, ownedBy } from '../resources.ts';
import type { AppResource, OperationResource } from '../resources.ts';

const maxAttempts = 8;

/**
 * Answers them as they were written, in the order given; known in this process when it returns. `conflict` with the key
 * of the app if that was changed meanwhile, or of the operation that is there already.
 */
async function createOperations(
  deps: Deps,
  app: AppResource,
  given: readonly NewOperation[],
  signal: AbortSignal,
): Promise<OperationResource[]> {
  for (let attempt = 1; ; attempt += 1) {
    const creation = await plan(deps, given, signal);
    const drafts = creation.fresh.map(({ id, spec, status }) =>
      deps.resources.draft(operationType, { id, owner: ownedBy(app.id), spec, status }),
    );
    const piece = mergePieces([
      { compare: [compareOf(app)] },
      ...drafts.map((draft) => draft.piece),
      { compare: drafts.map(({ resource }) => ({ key: historyKey(resource.id), modRevision: 0 })) },
      ...creation.awaited.map(({ before, after }) => writePiece(operationType, before, after)),
      ...(await supersededPieces(deps, creation, signal)),
    ]);
    const { succeeded, revision, reads } = await deps.store.transact(transactionOf(piece), { signal });
    if (succeeded) {
      await deps.operations.reached(revision, { signal });
      return drafts.map(({ resource }) => ({ ...resource, revision }));
    }
    const failed = failedCompare(piece, reads);
    const own = new Set([compareOf(app), ...drafts.map((one) => compareOf(one.resource))].map(({ key }) => key));
    for (const { resource } of drafts) own.add(historyKey(resource.id));
    // Something it depends on went on: look again.
    if (failed === undefined || own.has(failed.key) || attempt >= maxAttempts) throw conflictOf(failed);
    await deps.operations.reached(revision, { signal });
  }
}

async function plan(deps: Deps, given: readonly NewOperation[], signal: AbortSignal): Promise<Creation> {
  const { queue, store } = deps;
  const ended = new Map<string, KnownOperation>();
  const own = new Set(given.map(({ id }) => id));
  for (const id of new Set(given.flatMap(({ spec }) => spec.dependsOn ?? []))) {
    if (own.has(id) || queue.get(id) !== undefined) continue;
    const operation = await findOperation(store, id, { signal });
    if (operation !== undefined) ended.set(id, { operation, place: 0 });
  }
  const known = (id: string): KnownOperation | undefined => {
    const operation = queue.get(id);
    return operation === undefined ? ended.get(id) : { operation, place: queue.placeOf(id) ?? 0 };
  };
  return planCreation(given, known, ({ appId, singletonId }) =>
    queue
      .ofApp(appId)
      .filter(({ spec }) => spec.singletonId === singletonId)
      .map((operation) => ({ operation, place: queue.placeOf(operation.id) ?? 0 })),
  );
}

async function supersededPieces(deps: Deps, { superseded }: Creation, signal: AbortSignal): Promise<Piece[]> {
  return Promise.all(
    superseded.map(async ({ operation, by }) => {
      const reason = `superseded by ${by}`;
      return (await deps.writer.plan(operation, { type: 'abandon', reason }, { signal })).piece;
    }),
  );
}

/** Asked for again, they are as they are by now. */
export async function createOnce(
  deps: Deps,
  app: AppResource,
  given: readonly NewOperation[],
  signal: AbortSignal,
): Promise<OperationResource[]> {
  const ids = given.map(({ id }) => id);
  try {
    return await createOperations(deps, app, given, signal);
  } catch (error) {
    if (!isThereAlready(error, ids)) throw error;
    return findAll(deps, app, ids, signal);
  }
}

/** Those that were asked for before, of the same app under the same ids: of what others called so nothing is told. */
async function findAll(
  deps: Deps,
  app: AppResource,
  ids: readonly string[],
  signal: AbortSignal,
): Promise<OperationResource[]> {
  const found = await Promise.all(ids.map((id) => findOperation(deps.store, id, { signal })));
  const own = found.filter((one) => one?.spec.appId === app.id);
  if (own.length < ids.length) {
    throw new FlynnError('conflict', 'some of these operations are there and some are not: use another id');
  }
  return own.filter((one) => one !== undefined);
}

/** Whether these operations, or some of them, are there already. */
function isThereAlready(error: unknown, ids: readonly string[]): boolean {
  if (!hasCode(error, 'conflict')) return false;
  const { key } = error.detail;
  return ids.some(
    (id) => key === historyKey(id) || key === compareOf({ type: operationType.name, id, revision: 0 }).key,
  );
}
