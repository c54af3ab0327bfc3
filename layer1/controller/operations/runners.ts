/** The queue as runners see it: claim, report, heartbeat, lines. */
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { raceAbort, withDeadline } from '@flynn/kit/retry';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import type { z } from 'zod';
import { principalOf } from '../access/principal.ts';
import type { HeldBlobs } from '../collection/held-blobs.ts';
import { operations } from './api.ts';
import type { Deps } from '../deps.ts';
import { OperationLog, logSizes } from './log.ts';
import { lossOfFailed } from './lost-builds.ts';
import type { Loss } from '../model.ts';
import { decodeOperation, findOperation, getOperation, liveKey } from './records.ts';
import { checkHeld } from './state.ts';
import type { OperationEvent } from './state.ts';
import { ignoreOvertaken } from './writer.ts';
import type { OperationWriter } from './writer.ts';
import type { OperationResource, RunnerResource } from '../resources.ts';
import { checkAdopted, checkRunner, noteSeen, takerOf } from './runner-registry.ts';
import { viewOperation } from '../views.ts';

type Refusal = { id: string; code: 'conflict' | 'not_found'; message: string };

const claimWaitMs = 25_000;
/** Often enough that silence shows, seldom enough that it costs the store nothing. */
const beatWriteMs = 9_000;

export function runnerHandlers(deps: Deps, held: Pick<HeldBlobs, 'missingIn'>): Handler[] {
  const { writer, dispatch } = deps;
  const log = new OperationLog(deps.store);

  /** A mirror may be a moment behind: before anybody is told to stop the store is asked. */
  async function find(id: string, runnerId: string, signal: AbortSignal): Promise<OperationResource> {
    const known = await writer.find(id, { signal });
    return known !== undefined && !isToStop(known, runnerId) ? known : getOperation(deps.store, id, { signal });
  }

  async function lossOf(id: string, signal: AbortSignal): Promise<Loss | undefined> {
    const operation = await findOperation(deps.store, id, { signal });
    return operation === undefined ? undefined : lossOfFailed(deps, operation, signal);
  }

  async function beat(operation: OperationResource, runnerId: string, signal: AbortSignal): Promise<void> {
    // One from the future was written by a clock that is ahead of this one, or was.
    if (Math.abs(deps.now() - (operation.status.heartbeatAt ?? 0)) < beatWriteMs) return;
    // Its end may be written at the same time: that says more than this.
    await writer.apply(operation.id, { type: 'beat', runnerId }, { signal }).catch(ignoreOvertaken);
  }

  return [
    handle(operations.claim, async ({ params, body, signal }) => {
      const adopted = async () =>
        checkAdopted(deps, await checkRunner(deps, params.runner, body.token, signal), signal);
      const runner = await adopted();
      await noteSeen(deps, runner, signal);
      const slots = Math.min(body.slots, await freeSlots(deps, runner, signal));
      const given = await dispatch.ask(takerOf(runner), slots, withDeadline(claimWaitMs, signal));
      try {
        // It may have been turned away, or have left, while it was being given them.
        await adopted();
        const lines = await linesOfBegun(deps, given, signal);
        signal.throwIfAborted();
        return {
          operations: given.map((operation) => ({ ...viewOperation(operation), logLines: lines.get(operation.id) })),
        };
      } catch (error) {
        await Promise.all(given.map((operation) => dispatch.putBack(operation)));
        throw error;
      }
    }),
    handle(operations.report, async (call) => {
      const { params, body, signal } = call;
      const { runner: runnerId } = params;
      await checkRunner(deps, runnerId, body.token, signal);
      const isOutside = principalOf(call).runnerId !== undefined;
      const ended = isOutside ? await withOwnResults({ ...deps, held }, body.ended, signal) : body.ended;
      const events: [id: string, event: OperationEvent][] = [
        ...body.begun.map(({ id, attempt }): [string, OperationEvent] => [
          id,
          { type: 'acknowledge', runnerId, attempt },
        ]),
        ...body.declined.map(({ id, attempt, handover }): [string, OperationEvent] => [
          id,
          handover === undefined
            ? { type: 'decline', runnerId, attempt }
            : { type: 'hand over', runnerId, attempt, ...handover },
        ]),
        ...(await Promise.all(
          ended.map(async ({ id, ...outcome }): Promise<[string, OperationEvent]> => {
            const loss = outcome.state === 'failed' ? await lossOf(id, signal) : undefined;
            return [id, { type: 'finish', runnerId, outcome, loss }];
          }),
        )),
      ];
      const answers = await Promise.all(events.map(([id, event]) => applyReported(writer, id, event, signal)));
      return { refused: answers.filter((answer) => answer !== undefined) };
    }),
    handle(operations.heartbeat, async ({ params, body, signal }) => {
      const { runner: runnerId, operation: id } = params;
      await noteSeen(deps, await checkRunner(deps, runnerId, body.token, signal), signal);
      // Subscribed before looking: what changes in between is not missed.
      using told = toldToStop(deps, id, runnerId);
      const operation = await find(id, runnerId, signal);
      if (isToStop(operation, runnerId)) return { cancelled: true };
      await beat(operation, runnerId, signal);
      return {
        cancelled:
          body.waitMs > 0 &&
          (await isWithin(told.stop, withDeadline(body.waitMs, AbortSignal.any([signal, dispatch.closing])))),
      };
    }),
    handle(operations.append, async ({ params, body, signal }) => {
      await checkRunner(deps, params.runner, body.token, signal);
      const operation = await find(params.operation, params.runner, signal);
      checkHeld(operation, params.runner);
      await log.append(params.operation, body.offset, body.lines, { signal });
      await beat(operation, params.runner, signal);
    }),
  ];
}

/** Of what was begun before: how many lines its log has. One of a version before sends from 0: as many of its own go missing. */
async function linesOfBegun(
  { store }: Pick<Deps, 'store'>,
  given: readonly OperationResource[],
  signal: AbortSignal,
): Promise<Map<string, number>> {
  const isBegun = ({ status }: OperationResource) => status.losses !== undefined || status.handover !== undefined;
  const ids = given.filter(isBegun).map(({ id }) => id);
  if (ids.length === 0) return new Map();
  const sizes = await logSizes(store, ids, { signal });
  return new Map([...sizes].map(([id, { lines }]) => [id, lines]));
}

/** Throws `exhausted` if it holds all it registered for, by what the store says: it may have reported elsewhere that one ended. */
async function freeSlots({ queue, store }: Deps, { id, spec }: RunnerResource, signal: AbortSignal): Promise<number> {
  const known = [...queue.heldBy(id)];
  if (known.length < spec.slots) return spec.slots - known.length;
  const entries = await Promise.all(known.map((operation) => store.get(liveKey(operation), { signal })));
  const held = entries
    .flatMap((entry) => (entry === undefined ? [] : [decodeOperation(entry)]))
    .filter(({ status }) => status.runnerId === id)
    .map((operation) => operation.id);
  if (held.length < spec.slots) return spec.slots - held.length;
  throw new FlynnError(
    'exhausted',
    `runner ${id} has ${spec.slots} slots and holds ${held.join(', ')}: report how one ended first`,
  );
}

/** What refuses it goes into the answer; what may be tried again fails the whole report. */
async function applyReported(
  writer: OperationWriter,
  id: string,
  event: OperationEvent,
  signal: AbortSignal,
): Promise<Refusal | undefined> {
  try {
    await writer.apply(id, event, { signal });
    return undefined;
  } catch (error) {
    if (!hasCode(error, 'conflict', 'not_found')) throw error;
    return { id, code: hasCode(error, 'conflict') ? 'conflict' : 'not_found', message: error.message };
  }
}

type Ended = z.output<NonNullable<typeof operations.report.body>>['ended'][number];

/**
 * What comes of an operation is what the next is made of: who reports other bytes than were stored or built for it would have
 * those of another app.
 */
async function withOwnResults(
  { store, held }: Pick<Deps, 'store'> & { held: Pick<HeldBlobs, 'missingIn'> },
  ended: readonly Ended[],
  signal: AbortSignal,
): Promise<Ended[]> {
  const checked = async (one: Ended): Promise<Ended> => {
    const digests = ['resultDigest', 'sourceDigest'].flatMap((key) => one.output[key] ?? []);
    if (digests.length === 0) return one;
    const operation = await findOperation(store, one.id, { signal });
    // Whoever writes it down says that it is none.
    if (operation === undefined) return one;
    const [missing] = await held.missingIn([operation], digests, signal);
    if (missing === undefined) return one;
    const error = `its runner reported ${missing}, which nobody stored for it today: try again`;
    return { id: one.id, state: 'failed', error, output: {} };
  };
  return Promise.all(ended.map(checked));
}

function isToStop({ status }: OperationResource, runnerId: string): boolean {
  return status.state !== 'running' || status.runnerId !== runnerId || status.isCancelRequested === true;
}

/** `stop` resolves once the operation is to be stopped, or has ended without its runner. */
function toldToStop({ operations: mirror }: Deps, id: string, runnerId: string): Disposable & { stop: Promise<void> } {
  const told = Promise.withResolvers<void>();
  const unsubscribe = mirror.onChange(({ key, after }) => {
    if (key === id && (after === undefined || isToStop(after, runnerId))) told.resolve();
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
