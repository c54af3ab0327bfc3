/** Operations as people ask for them: pushes, their state, their log, cancelling. */
import { FlynnError } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import type { ServerEvent } from '@flynn/kit/routes';
import { shortId } from '@flynn/kit/ids';
import type { z } from 'zod';
import { operations } from './api.ts';
import { principalOf } from '../access/principal.ts';
import { isSamePlace, placeIn, placeOf } from '../builds/place.ts';
import type { OwnBlobs } from '../collection/own-blobs.ts';
import { refuseSource } from '../datastores/guards.ts';
import { othersText } from '../deployments/phases.ts';
import { findApp, forLiveApp } from '../deps.ts';
import type { Deps } from '../deps.ts';
import { resumePoint } from '../platform/event-stream.ts';
import { pageOf } from '../paging.ts';
import { operationType } from '../resources.ts';
import type { Operation } from '../model.ts';
import { askerOf } from './asker.ts';
import type { Asker } from './asker.ts';
import { expiryOf } from './expiry.ts';
import { createOnce } from './intake.ts';
import { OperationLog } from './log.ts';
import { chainOf } from './queue.ts';
import { findOperation, getOperation } from './records.ts';
import type { AppResource, OperationResource } from '../resources.ts';
import { adoptedRunners } from './runner-registry.ts';
import { viewOperation } from '../views.ts';

const usualLimit = 100;

export function operationHandlers(deps: Deps, own: OwnBlobs): Handler[] {
  const { writer, store, queue } = deps;
  const log = new OperationLog(store);
  const viewAll = (found: readonly OperationResource[]): Operation[] => {
    const takers = adoptedRunners(deps);
    return found.map((operation) => viewOperation(operation, queue.whyWaits(operation.id, takers)));
  };
  const view = (operation: OperationResource): Operation =>
    viewOperation(operation, queue.whyWaits(operation.id, adoptedRunners(deps)));
  return [
    handle(operations.push, async (call) => {
      const { params, body, signal } = call;
      const principal = principalOf(call);
      // Of what came by git the receiver knows that they had it.
      if (principal.sshKey === undefined) await own.check(principal, [body.sourceDigest], signal);
      return forLiveApp(deps, params.app, signal, async (app) => {
        refuseSource(app);
        await checkPlace(deps, app, body, signal);
        return viewAll(await push(deps, app, { ...body, asker: askerOf(principal) }, signal));
      });
    }),
    handle(operations.create, async (call) => {
      const { params, body, signal } = call;
      const principal = principalOf(call);
      await own.checkOperations(principal, body.operations, signal);
      const asker = askerOf(principal);
      return forLiveApp(deps, params.app, signal, async (app) => {
        refuseSource(app);
        const given = body.operations.map(({ id = shortId(), expiresAt, expiresInMs, ...spec }) => ({
          id,
          spec: { ...spec, appId: app.id, pushId: id, asker },
          expiresAt: expiryOf({ expiresAt, expiresInMs }, deps.now()),
        }));
        return viewAll(await createOnce(deps, app, given, signal));
      });
    }),
    handle(operations.get, async ({ params, signal }) => view(await getOperation(store, params.operation, { signal }))),
    handle(operations.list, async ({ params, query, signal }) => {
      const app = await findApp(deps, params.app, signal);
      return viewAll(await list(deps, query, signal, app.id));
    }),
    handle(operations.listAll, async ({ query, signal }) => viewAll(await list(deps, query, signal))),
    handle(operations.update, async ({ params, body, signal }) => {
      if (body.expiresAt === undefined && body.expiresInMs === undefined) {
        throw new FlynnError('invalid', 'until when? expiresAt is a time or null, expiresInMs counts from now on');
      }
      const expiresAt = expiryOf(body, deps.now());
      const event = { type: 'move expiry', expiresAt } as const;
      return view(await writer.apply(params.operation, event, { signal }));
    }),
    handle(operations.cancel, async ({ params, body: { force }, signal }) => {
      const reason = force ? 'it was cancelled by force' : 'it was cancelled';
      return view(await writer.apply(params.operation, { type: 'cancel', isForced: force, reason }, { signal }));
    }),
    handle(operations.log, async ({ params, query, headers, signal }) => {
      await getOperation(store, params.operation, { signal });
      const seen = resumePoint(headers);
      const from = seen === undefined ? 0 : seen + 1;
      return readLog(deps, log, params.operation, { from, isFollowed: query.follow ?? true, signal });
    }),
  ];
}

type Push = z.output<NonNullable<typeof operations.push.body>> & { asker: Asker | undefined };

async function push(deps: Deps, app: AppResource, input: Push, signal: AbortSignal): Promise<OperationResource[]> {
  const { pushId, asker, expiresInMs, ...source } = input;
  const expiresAt = expiryOf({ expiresInMs }, deps.now());
  // What follows is cancelled with the first.
  const chain = chainOf(app.id, pushId).map(({ id, ...spec }, index) => ({
    id,
    spec: { ...spec, appId: app.id, pushId, asker, input: source },
    expiresAt: index === 0 ? expiresAt : undefined,
  }));
  return createOnce(deps, app, chain, signal);
}

/** A receiver of a version before knows of no folder, and the app's settings may have changed since it read them. */
async function checkPlace(
  { store }: Deps,
  app: AppResource,
  { pushId, ...told }: z.output<typeof operations.push.body>,
  signal: AbortSignal,
): Promise<void> {
  if (isSamePlace(placeOf(app.spec.meta), placeIn(told))) return;
  // Asked again: it was taken.
  const [build] = chainOf(app.id, pushId);
  if (build !== undefined && (await findOperation(store, build.id, { signal })) !== undefined) return;
  throw new FlynnError(
    'conflict',
    `what ${app.spec.name} is built from ("flynn build -a ${app.spec.name}") is not what was sent: it was set while the push was under way, or a part of the platform is of a version before, which knows of no folder, until the update is through`,
  );
}

/** Live ones first, then what ended last. */
async function list(
  { operations: mirror, history, queue, resources }: Deps,
  query: z.output<typeof operations.list.query>,
  signal: AbortSignal,
  appId?: string,
): Promise<OperationResource[]> {
  const { ended = true, limit = usualLimit, after } = query;
  // What was just queued through another controller is in the store, if not yet in memory here.
  const stored = await resources.list(operationType, { signal });
  await mirror.reached(Math.max(0, ...stored.map(({ revision }) => revision)), { signal });
  const known =
    appId === undefined ? [...mirror.snapshot.entries.values()].map(({ value }) => value) : queue.ofApp(appId);
  // Word of an end may be on its way still: what is live no longer is in the history.
  const there = new Set(stored.map(({ id }) => id));
  for (const { id } of known) if (!there.has(id)) history.expect(id);
  const sorted = known.filter(({ id }) => there.has(id)).toSorted((a, b) => queue.compare(b.id, a.id));
  const isLive = after === undefined || !ended || sorted.some(({ id }) => id === after);
  const page = isLive ? pageOf(sorted, { limit, after }, ({ id }) => id) : [];
  if (!ended || page.length >= limit) return page;
  const rest = await history.newest({
    limit: limit - page.length,
    signal,
    ...(isLive ? {} : { after }),
    ...(appId === undefined ? {} : { appId }),
  });
  const shown = new Set(sorted.map(({ id }) => id));
  return [...page, ...rest.filter(({ id }) => !shown.has(id))];
}

async function* readLog(
  deps: Deps,
  log: OperationLog,
  id: string,
  options: { from: number; isFollowed: boolean; signal: AbortSignal },
): AsyncGenerator<ServerEvent> {
  const { from, isFollowed, signal } = options;
  // Its runner, which would say so, has it only after that. Of no number: it is no line of the log.
  if (isFollowed && from === 0 && deps.queue.keptBackBy(id) !== undefined) {
    yield { event: 'line', data: { text: othersText } };
  }
  for await (const { line, text } of log.read(id, options)) yield { id: String(line), event: 'line', data: { text } };
  if (signal.aborted) return;
  yield { event: 'end', data: viewOperation(await getOperation(deps.store, id, { signal })) };
}
