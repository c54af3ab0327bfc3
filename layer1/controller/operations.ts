/** Operations as people ask for them: pushes, their state, their log, cancelling. */
import { hasCode } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import type { ServerEvent } from '@flynn/kit/routes';
import { compareOf } from '@flynn/resource/record';
import type { z } from 'zod';
import { operations } from './api.ts';
import { findApp, forLiveApp, isOvertaken } from './deps.ts';
import type { Deps } from './deps.ts';
import { resumePoint } from './event-stream.ts';
import type { Operation } from './model.ts';
import { endOperation } from './operation-end.ts';
import { OperationLog } from './operation-log.ts';
import { byAge, chainOf, hasOperationEnded } from './operation-queue.ts';
import { pageOf } from './paging.ts';
import { operationType, ownedBy } from './resources.ts';
import type { AppResource } from './resources.ts';
import { viewOperation } from './views.ts';

const cancelAttempts = 8;

export function operationHandlers(deps: Deps): Handler[] {
  const { resources } = deps;
  const log = new OperationLog(deps.store);
  return [
    handle(operations.push, async ({ params, body, signal }) =>
      forLiveApp(deps, params.app, signal, (app) => push(deps, app, body, signal)),
    ),
    handle(operations.get, async ({ params, signal }) =>
      viewOperation(await resources.get(operationType, params.operation, { signal })),
    ),
    handle(operations.list, async ({ params, query, signal }) => {
      const app = await findApp(deps, params.app, signal);
      const all = await resources.list(operationType, { owner: ownedBy(app.id), signal });
      return pageOf(all.map(viewOperation).sort(byAge).toReversed(), query, ({ id }) => id);
    }),
    handle(operations.cancel, async ({ params, signal }) => cancel(deps, params.operation, signal)),
    handle(operations.log, async ({ params, headers, signal }) => {
      await resources.get(operationType, params.operation, { signal });
      const seen = resumePoint(headers);
      return readLog(deps, log, params.operation, seen === undefined ? 0 : seen + 1, signal);
    }),
  ];
}

type Push = z.output<NonNullable<typeof operations.push.body>>;

async function push(deps: Deps, app: AppResource, input: Push, signal: AbortSignal): Promise<Operation[]> {
  const { resources } = deps;
  const { pushId, ...source } = input;
  const chain = chainOf(app.id, pushId);
  const drafts = chain.map(({ id, kind, dependsOn }) =>
    resources.draft(operationType, {
      id,
      owner: ownedBy(app.id),
      spec: { appId: app.id, kind, ...(dependsOn === undefined ? {} : { dependsOn }), pushId, input: source },
    }),
  );
  try {
    await resources.createMany(drafts, { signal, also: { compare: [compareOf(app)] } });
    return drafts.map(({ resource }) => viewOperation(resource));
  } catch (error) {
    if (!hasCode(error, 'conflict') || isOvertaken(error, app)) throw error;
    return Promise.all(chain.map(async ({ id }) => viewOperation(await resources.get(operationType, id, { signal }))));
  }
}

/** What waits is cancelled at once; what runs is told to stop, and ends when its runner says so. */
async function cancel(deps: Deps, id: string, signal: AbortSignal): Promise<Operation> {
  for (let attempt = 1; ; attempt += 1) {
    const operation = await deps.resources.get(operationType, id, { signal });
    if (hasOperationEnded(operation.status.state)) return viewOperation(operation);
    try {
      if (operation.status.state === 'queued') {
        return viewOperation(
          await endOperation(deps, operation, { state: 'cancelled', error: 'it was cancelled' }, { signal }),
        );
      }
      return viewOperation(
        await deps.resources.updateStatus(operationType, id, ({ status }) => ({ ...status, isCancelRequested: true }), {
          expectRevision: operation.revision,
          signal,
        }),
      );
    } catch (error) {
      if (!hasCode(error, 'conflict') || attempt >= cancelAttempts) throw error;
    }
  }
}

async function* readLog(
  deps: Deps,
  log: OperationLog,
  id: string,
  from: number,
  signal: AbortSignal,
): AsyncGenerator<ServerEvent> {
  for await (const { line, text } of log.read(id, { from, signal }))
    yield { id: String(line), event: 'line', data: { text } };
  if (signal.aborted) return;
  yield { event: 'end', data: viewOperation(await deps.resources.get(operationType, id, { signal })) };
}
