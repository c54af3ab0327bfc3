/** Ends operations: the state, the log's end marker, the app's lock and what depended on it, in one transaction. */
import { writePiece } from '@flynn/resource/piece';
import type { Piece } from '@flynn/resource/piece';
import type { Compare } from '@flynn/store/store';
import type { Deps } from './deps.ts';
import { closeLog } from './operation-log.ts';
import { chainOf, dependentsOf, queued } from './operation-queue.ts';
import type { Outcome } from './operation-queue.ts';
import { operationType } from './resources.ts';
import type { OperationResource } from './resources.ts';

/** There while an operation of the app runs: builds and deployments of an app exclude each other. */
export function operationLock(appId: string): string {
  return `/flynn/operation-lock/${appId}`;
}

/** Throws `conflict` if the operation is no longer as it was given. */
export async function endOperation(
  deps: Deps,
  operation: OperationResource,
  outcome: Outcome & { output?: Record<string, string> },
  options: { signal: AbortSignal; epoch?: Compare },
): Promise<OperationResource> {
  const { appId, pushId } = operation.spec;
  const dependents = outcome.state === 'complete' ? [] : await findDependents(deps, operation, options.signal);
  const at = new Date(deps.now()).toISOString();
  const ended = endedAs(operation, outcome, at);
  const pieces: Piece[] = [
    writePiece(operationType, operation, ended),
    { then: [closeLog(operation.id)] },
    ...dependents.flatMap((dependent): Piece[] => [
      writePiece(
        operationType,
        dependent,
        endedAs(
          dependent,
          { state: 'cancelled', error: `the ${operation.spec.kind} before it ${wordOf(outcome)}` },
          at,
        ),
      ),
      { then: [closeLog(dependent.id)] },
    ]),
    operation.status.state === 'running' ? { then: [{ delete: operationLock(appId) }] } : {},
    options.epoch === undefined ? {} : { compare: [options.epoch] },
  ];
  const revision = await deps.resources.commit(pieces, { signal: options.signal });
  deps.log.info({ operation: operation.id, app: appId, push: pushId, state: outcome.state }, 'operation ended');
  return { ...ended, revision };
}

function wordOf({ state }: Outcome): string {
  return state === 'cancelled' ? 'was cancelled' : 'failed';
}

function endedAs(
  operation: OperationResource,
  outcome: Outcome & { output?: Record<string, string> },
  at: string,
): OperationResource {
  const { isCancelRequested: _asked, heartbeatAt: _beat, ...status } = operation.status;
  return {
    ...operation,
    updatedAt: at,
    status: {
      ...status,
      state: outcome.state,
      ...(outcome.error === undefined ? {} : { error: outcome.error }),
      output: outcome.output ?? status.output,
      endedAt: at,
    },
  };
}

/** The rest of its push, which now never runs. */
async function findDependents(
  deps: Deps,
  { id, spec }: OperationResource,
  signal: AbortSignal,
): Promise<OperationResource[]> {
  const chain = await Promise.all(
    chainOf(spec.appId, spec.pushId)
      .filter((other) => other.id !== id)
      .map((other) => deps.resources.find(operationType, other.id, { signal })),
  );
  const found = chain.filter((other) => other !== undefined);
  const waiting = new Set(dependentsOf(found.map(queued), id).map((other) => other.id));
  return found.filter((other) => waiting.has(other.id));
}
