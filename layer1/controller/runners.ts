/** The queue as runners see it: claim, heartbeat, lines, result. */
import { hasCode } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { withDeadline } from '@flynn/kit/retry';
import { operations } from './api.ts';
import type { Deps } from './deps.ts';
import type { Operation } from './model.ts';
import { endOperation, operationLock } from './operation-end.ts';
import { OperationLog } from './operation-log.ts';
import { checkFinish, checkHeld, claimable, queued } from './operation-queue.ts';
import { operationType } from './resources.ts';
import type { OperationResource } from './resources.ts';
import { viewOperation } from './views.ts';

const claimWaitMs = 25_000;
const takeMs = 10_000;
/** Often enough that silence shows, seldom enough that it costs the store nothing. */
const beatWriteMs = 9_000;

export function runnerHandlers(deps: Deps): Handler[] {
  const { resources } = deps;
  const log = new OperationLog(deps.store);

  async function held(id: string, runnerId: string, signal: AbortSignal): Promise<OperationResource> {
    const operation = await resources.get(operationType, id, { signal });
    checkHeld({ id, ...operation.status }, runnerId);
    return operation;
  }

  async function beat(operation: OperationResource, signal: AbortSignal): Promise<void> {
    if (deps.now() - (operation.status.heartbeatAt ?? 0) < beatWriteMs) return;
    try {
      await resources.updateStatus(
        operationType,
        operation.id,
        ({ status }) => ({ ...status, heartbeatAt: deps.now() }),
        {
          expectRevision: operation.revision,
          signal,
        },
      );
    } catch (error) {
      // Another sign of life, or the end, was written at the same time: either says more than this one.
      if (!hasCode(error, 'conflict')) throw error;
    }
  }

  return [
    handle(operations.claim, async ({ params, signal }) => {
      const operation = await claim(deps, params.runner, signal);
      return operation === undefined ? {} : { operation };
    }),
    handle(operations.heartbeat, async ({ params, signal }) => {
      const operation = await resources.get(operationType, params.operation, { signal });
      const { state, runnerId, isCancelRequested } = operation.status;
      if (state !== 'running' || runnerId !== params.runner) return { cancelled: true };
      await beat(operation, signal);
      return { cancelled: isCancelRequested === true };
    }),
    handle(operations.append, async ({ params, body, signal }) => {
      const operation = await held(params.operation, params.runner, signal);
      await log.append(params.operation, body.offset, body.lines, { signal });
      await beat(operation, signal);
    }),
    handle(operations.finish, async ({ params, body, signal }) => {
      for (let attempt = 1; ; attempt += 1) {
        const operation = await resources.get(operationType, params.operation, { signal });
        if (checkFinish({ id: operation.id, ...operation.status }, params.runner, body) === 'already')
          return viewOperation(operation);
        try {
          return viewOperation(await endOperation(deps, operation, body, { signal }));
        } catch (error) {
          // A heartbeat or a cancel came in between.
          if (!hasCode(error, 'conflict') || attempt >= 8) throw error;
        }
      }
    }),
  ];
}

async function claim(deps: Deps, runnerId: string, signal: AbortSignal): Promise<Operation | undefined> {
  const limited = withDeadline(claimWaitMs, signal);
  const refused = new Set<string>();
  while (!limited.aborted) {
    // Subscribed before looking: what changes in between is not missed.
    const change = Promise.withResolvers<void>();
    const stop = deps.operations.onChange(() => change.resolve());
    const onAbort = () => change.resolve();
    limited.addEventListener('abort', onAbort, { once: true });
    try {
      for (const operation of waiting(deps)) {
        if (refused.has(`${operation.id} ${operation.revision}`)) continue;
        const taken = await take(deps, operation, runnerId);
        if (taken !== undefined && signal.aborted) await putBack(deps, taken);
        if (taken !== undefined) return viewOperation(taken);
        // Somebody was faster; the mirror tells in a moment.
        refused.add(`${operation.id} ${operation.revision}`);
      }
      await change.promise;
      refused.clear();
    } finally {
      stop();
      limited.removeEventListener('abort', onAbort);
    }
  }
  return undefined;
}

function waiting(deps: Deps): OperationResource[] {
  const all = [...deps.operations.snapshot.entries.values()].map(({ value }) => value);
  const byId = new Map(all.map((operation) => [operation.id, operation]));
  return claimable(all.map(queued)).flatMap(({ id }) => byId.get(id) ?? []);
}

async function take(
  deps: Deps,
  operation: OperationResource,
  runnerId: string,
): Promise<OperationResource | undefined> {
  const lock = operationLock(operation.spec.appId);
  const nowMs = deps.now();
  try {
    return await deps.resources.updateStatus(
      operationType,
      operation.id,
      ({ status }) => ({
        ...status,
        state: 'running' as const,
        runnerId,
        heartbeatAt: nowMs,
        startedAt: new Date(nowMs).toISOString(),
      }),
      {
        expectRevision: operation.revision,
        also: () => ({
          compare: [{ key: lock, modRevision: 0 }],
          then: [{ put: lock, value: JSON.stringify(operation.id) }],
        }),
        // Once it is written it has to be known: a runner that leaves now has it put back.
        signal: withDeadline(takeMs),
      },
    );
  } catch (error) {
    if (hasCode(error, 'conflict', 'not_found')) return undefined;
    throw error;
  }
}

/** The runner left while it was being given the operation: somebody else may have it at once. */
async function putBack(deps: Deps, { id, spec, revision }: OperationResource): Promise<void> {
  await deps.resources.updateStatus(operationType, id, () => operationType.initialStatus(), {
    expectRevision: revision,
    also: () => ({ then: [{ delete: operationLock(spec.appId) }] }),
    signal: withDeadline(takeMs),
  });
}
