/** The queue as runners see it: claim, acknowledge, heartbeat, lines, result. */
import { raceAbort, withDeadline } from '@flynn/kit/retry';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { operations } from './api.ts';
import type { Deps } from './deps.ts';
import { OperationLog } from './operation-log.ts';
import { getOperation } from './operation-records.ts';
import { checkHeld } from './operation-state.ts';
import { ignoreOvertaken } from './operation-writer.ts';
import type { OperationResource } from './resources.ts';
import { checkAdopted, checkRunner, noteSeen, takerOf } from './runner-registry.ts';
import { viewOperation } from './views.ts';

const claimWaitMs = 25_000;
/** Often enough that silence shows, seldom enough that it costs the store nothing. */
const beatWriteMs = 9_000;

export function runnerHandlers(deps: Deps): Handler[] {
  const { writer, dispatch } = deps;
  const log = new OperationLog(deps.store);

  /** A mirror may be a moment behind: before anybody is told to stop the store is asked. */
  async function find(id: string, runnerId: string, signal: AbortSignal): Promise<OperationResource> {
    const known = await writer.find(id, { signal });
    return known !== undefined && !isToStop(known, runnerId) ? known : getOperation(deps.store, id, { signal });
  }

  async function beat(operation: OperationResource, runnerId: string, signal: AbortSignal): Promise<void> {
    if (deps.now() - (operation.status.heartbeatAt ?? 0) < beatWriteMs) return;
    // Its end may be written at the same time: that says more than this.
    await writer.apply(operation.id, { type: 'beat', runnerId }, { signal }).catch(ignoreOvertaken);
  }

  return [
    handle(operations.claim, async ({ params, body, signal }) => {
      const runner = await checkRunner(deps, params.runner, body.token, signal);
      checkAdopted(runner);
      await noteSeen(deps, runner, signal);
      const given = await dispatch.ask(takerOf(runner), body.slots, withDeadline(claimWaitMs, signal));
      // It left while it was being given them.
      if (signal.aborted) await Promise.all(given.map((operation) => dispatch.putBack(operation)));
      return { operations: given.map((operation) => viewOperation(operation)) };
    }),
    handle(operations.acknowledge, async ({ params, body, signal }) => {
      await checkRunner(deps, params.runner, body.token, signal);
      const event = { type: 'acknowledge', runnerId: params.runner, attempt: body.attempt } as const;
      return viewOperation(await writer.apply(params.operation, event, { signal }));
    }),
    handle(operations.decline, async ({ params, body, signal }) => {
      await checkRunner(deps, params.runner, body.token, signal);
      const event = { type: 'decline', runnerId: params.runner, attempt: body.attempt } as const;
      return viewOperation(await writer.apply(params.operation, event, { signal }));
    }),
    handle(operations.heartbeat, async ({ params, body, signal }) => {
      const { runner: runnerId, operation: id } = params;
      await noteSeen(deps, await checkRunner(deps, runnerId, body.token, signal), signal);
      // Subscribed before looking: what changes in between is not missed.
      using told = toldToStop(deps, id);
      const operation = await find(id, runnerId, signal);
      if (isToStop(operation, runnerId)) return { cancelled: true };
      await beat(operation, runnerId, signal);
      return { cancelled: body.waitMs > 0 && (await isWithin(told.stop, withDeadline(body.waitMs, signal))) };
    }),
    handle(operations.append, async ({ params, body, signal }) => {
      await checkRunner(deps, params.runner, body.token, signal);
      const operation = await find(params.operation, params.runner, signal);
      checkHeld(operation, params.runner);
      await log.append(params.operation, body.offset, body.lines, { signal });
      await beat(operation, params.runner, signal);
    }),
    handle(operations.finish, async ({ params, body, signal }) => {
      await checkRunner(deps, params.runner, body.token, signal);
      const { token: _token, ...outcome } = body;
      const event = { type: 'finish', runnerId: params.runner, outcome } as const;
      return viewOperation(await writer.apply(params.operation, event, { signal }));
    }),
  ];
}

function isToStop({ status }: OperationResource, runnerId: string): boolean {
  return status.state !== 'running' || status.runnerId !== runnerId || status.isCancelRequested === true;
}

/** `stop` resolves once the operation is to be stopped, or has ended without its runner. */
function toldToStop({ operations: mirror }: Deps, id: string): Disposable & { stop: Promise<void> } {
  const told = Promise.withResolvers<void>();
  const unsubscribe = mirror.onChange(({ key, after }) => {
    if (key === id && (after === undefined || after.status.isCancelRequested === true)) told.resolve();
  });
  return { stop: told.promise, [Symbol.dispose]: unsubscribe };
}

async function isWithin(event: Promise<void>, signal: AbortSignal): Promise<boolean> {
  try {
    await raceAbort(event, signal);
    return true;
  } catch (error) {
    if (signal.aborted) return false;
    throw error;
  }
}
