/** Which operation runs next, and what may become of one? Pure: operations in, decisions out. */
import { createHash } from 'node:crypto';
import { FlynnError } from '@flynn/kit/errors';
import { operationKinds } from './model.ts';
import type { Operation } from './model.ts';
import type { OperationResource } from './resources.ts';

export type OperationKind = Operation['kind'];
export type OperationState = Operation['state'];

/** What the queue needs to know of an operation. */
export type QueuedOperation = Pick<Operation, 'id' | 'appId' | 'kind' | 'dependsOn' | 'pushId' | 'state' | 'createdAt'>;

export function queued({ id, spec, status, createdAt }: OperationResource): QueuedOperation {
  const { appId, kind, dependsOn, pushId } = spec;
  return { id, appId, kind, ...(dependsOn === undefined ? {} : { dependsOn }), pushId, state: status.state, createdAt };
}

const transitions: Record<OperationState, readonly OperationState[]> = {
  queued: ['running', 'cancelled'],
  running: ['complete', 'failed', 'cancelled'],
  complete: [],
  failed: [],
  cancelled: [],
};

export function hasOperationEnded(state: OperationState): boolean {
  return transitions[state].length === 0;
}

/** The ids of a push's operations follow from it: the same push asked for twice is one chain. */
export function operationIdOf(appId: string, pushId: string, kind: OperationKind): string {
  const digest = createHash('sha256').update(`${appId}\n${pushId}`).digest('hex').slice(0, 16);
  return `${kind}-${digest}`;
}

/** build, release, deploy, each depending on the one before. */
export function chainOf(appId: string, pushId: string): { id: string; kind: OperationKind; dependsOn?: string }[] {
  const idOf = (kind: OperationKind) => operationIdOf(appId, pushId, kind);
  return [
    { id: idOf('build'), kind: 'build' },
    { id: idOf('release'), kind: 'release', dependsOn: idOf('build') },
    { id: idOf('deploy'), kind: 'deploy', dependsOn: idOf('release') },
  ];
}

/**
 * Those a runner may take, oldest first. An app's pushes go one after the other: nothing of an app starts while one of its
 * operations runs, and the next push waits for the end of the chain before it.
 */
export function claimable<T extends QueuedOperation>(operations: readonly T[]): T[] {
  const byId = new Map(operations.map((operation) => [operation.id, operation]));
  const taken = new Set(
    operations.filter((operation) => operation.state === 'running').map((operation) => operation.appId),
  );
  const ready: T[] = [];
  for (const operation of operations.filter(({ state }) => state === 'queued').sort(byAge)) {
    if (taken.has(operation.appId)) continue;
    const before = operation.dependsOn === undefined ? undefined : byId.get(operation.dependsOn)?.state;
    if (operation.dependsOn !== undefined && before !== 'complete') continue;
    taken.add(operation.appId);
    ready.push(operation);
  }
  return ready;
}

/** What waits, directly or not, for this one and now never runs. */
export function dependentsOf<T extends QueuedOperation>(operations: readonly T[], id: string): T[] {
  const direct = operations.filter((operation) => operation.dependsOn === id && operation.state === 'queued');
  return [...direct, ...direct.flatMap((operation) => dependentsOf(operations, operation.id))];
}

/** Of an app, the ended operations beyond the newest `keep`: whole pushes, so that no chain loses its middle. */
export function expired<T extends QueuedOperation>(operations: readonly T[], keep: number): T[] {
  const old = operations.toSorted(byAge).toReversed().slice(keep);
  const livePushes = new Set(operations.filter(({ state }) => !hasOperationEnded(state)).map(({ pushId }) => pushId));
  return old.filter(({ pushId }) => !livePushes.has(pushId));
}

/** Oldest first; of one push in the chain's order. */
export function byAge(a: QueuedOperation, b: QueuedOperation): number {
  if (a.createdAt !== b.createdAt) return a.createdAt < b.createdAt ? -1 : 1;
  if (a.pushId !== b.pushId) return a.pushId < b.pushId ? -1 : 1;
  return operationKinds.indexOf(a.kind) - operationKinds.indexOf(b.kind);
}

export type Outcome = { state: 'complete' | 'failed' | 'cancelled'; error?: string | undefined };

/** May this runner end the operation so? 'already' when it has just that answer from before: the reply was lost. */
export function checkFinish(
  operation: { id: string; state: OperationState; runnerId?: string | undefined; error?: string | undefined },
  runnerId: string,
  outcome: Outcome,
): 'end' | 'already' {
  if (hasOperationEnded(operation.state) && operation.runnerId === runnerId && operation.state === outcome.state)
    return 'already';
  checkHeld(operation, runnerId);
  return 'end';
}

/** Throws `conflict` unless the runner holds the operation. */
export function checkHeld(
  operation: { id: string; state: OperationState; runnerId?: string | undefined; error?: string | undefined },
  runnerId: string,
): void {
  if (operation.state === 'running' && operation.runnerId === runnerId) return;
  const because = operation.error === undefined ? '' : `: ${operation.error}`;
  throw new FlynnError(
    'conflict',
    operation.state === 'running'
      ? `operation ${operation.id} is run by ${operation.runnerId ?? 'another runner'}, not by ${runnerId}: stop working on it`
      : `operation ${operation.id} is ${operation.state}${because}: stop working on it`,
  );
}
