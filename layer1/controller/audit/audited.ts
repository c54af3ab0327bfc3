/** Handlers that change something, with what every change has: an entry in the trail, and one answer however often asked. */
import { FlynnError } from '@flynn/kit/errors';
import type { CheckedCall, Handler } from '@flynn/kit/http-handler';
import type { Logger } from '@flynn/kit/log';
import type { Route } from '@flynn/kit/routes';
import type { Store } from '@flynn/store/store';
import { tokens } from '../access/api.ts';
import type { Heard } from '../access/heard.ts';
import { releases } from '../api.ts';
import { datastores } from '../datastores/api.ts';
import { generic } from '../generic/api.ts';
import { notifications } from '../notifications/api.ts';
import { operations } from '../operations/api.ts';
import { runnerBlobs } from '../operations/api-runner-blobs.ts';
import { runners } from '../operations/api-runners.ts';
import { hooks } from '../source/hook/api.ts';
import { claimAnswer } from './answers.ts';
import type { Claim } from './answers.ts';
import { during } from './mutation.ts';
import type { Sightings } from './sightings.ts';
import type { AuditTrail, AuditedMutation } from './trail.ts';

/**
 * Runners say all the time that they are at it; what comes of it is told by the operation. At hooks strangers knock: the source
 * tells of them.
 */
const unrecorded: ReadonlySet<Route> = new Set([
  operations.claim,
  operations.report,
  operations.heartbeat,
  operations.append,
  runners.register,
  runnerBlobs.put,
  hooks.receive,
]);
/** What they read is put in the place of what is there. */
const recordedReads: ReadonlySet<Route> = new Set([datastores.import]);
const secretAnswers: ReadonlySet<Route> = new Set<Route>([
  tokens.create,
  tokens.exchange,
  runners.add,
  notifications.create,
  hooks.make,
]);

/** Answers that may be too large to be kept: where what was made is read again, and what its id is called there. */
const rereads: ReadonlyMap<Route, Readonly<{ by: Route; as: string }>> = new Map([
  [releases.create, { by: releases.get, as: 'release' }],
]);

/** What is told once is not kept for who asks again: of a new notification the secret that it signs with. */
function hasSecret(route: Route, { params }: CheckedCall): boolean {
  return secretAnswers.has(route) || (route === generic.apply && params['kind'] === 'Notification');
}

export function isRecorded(route: Route): boolean {
  return (route.method !== 'GET' || recordedReads.has(route)) && !unrecorded.has(route);
}

/** Whether an Idempotency-Key counts. A stream cannot be kept for who asks again, nor what is asked with one be compared. */
export function keepsAnswers(route: Route): boolean {
  const isWhole = route.kind !== 'stream' && route.body !== 'stream';
  return route.method === 'POST' && isWhole && route.access !== 'open' && isRecorded(route);
}

type AuditOptions = Readonly<{
  /** The plain one. */
  store: Store;
  trail: AuditTrail;
  /** Waits until what was committed counts here. */
  heard: Heard;
  /** By which it is judged whether a request that named itself is still under way. */
  sightings: Sightings;
  now: () => number;
  log: Logger;
}>;

export function audited(handlers: readonly Handler[], options: AuditOptions): Handler[] {
  return handlers.map((handler) => {
    const { route } = handler;
    if (!isRecorded(route)) return handler;
    const again = rereadingOf(route, handlers);
    return { route, run: (call) => act(handler, again, call, options) };
  });
}

type Rereading = (call: CheckedCall, id: string) => Promise<unknown>;

function rereadingOf(route: Route, handlers: readonly Handler[]): Rereading {
  const reread = rereads.get(route);
  const reader = handlers.find((one) => one.route === reread?.by);
  if (reread !== undefined && reader !== undefined) {
    return (call, id) =>
      reader.run({ ...call, params: { ...call.params, [reread.as]: id }, query: {}, body: undefined });
  }
  return async (_call, id) => {
    const message = `this was carried out, and its answer was too large to be kept for who asks again: read ${id}, which it made`;
    throw new FlynnError('conflict', message, { detail: { id } });
  };
}

async function act(
  { route, run }: Handler,
  readAgain: Rereading,
  call: CheckedCall,
  { store, trail, heard, sightings, now, log }: AuditOptions,
): Promise<unknown> {
  const found =
    keepsAnswers(route) && call.caller !== undefined
      ? await claimAnswer(store, call, route, { now, sightings })
      : undefined;
  if (found !== undefined && 'madeId' in found) return readAgain(call, found.madeId);
  if (found !== undefined && 'answer' in found) return found.answer;
  const claim = found?.claim;
  const entry = trail.begin(call, route);
  let answer: unknown;
  try {
    answer = await during(mutationOf(entry, claim), () => run(call));
  } catch (error) {
    await trail.end(entry, error);
    // What was written stays written: that request is not to be carried out a second time.
    if (!entry.hasCommitted) await claim?.giveBack();
    throw error;
  }
  // It was carried out, and whoever asks again will be told so: only the answer itself would be lost.
  const keeping = claim?.keep(answer, hasSecret(route, call)).catch((error: unknown) => {
    log.error({ err: error, path: route.path }, 'an answer could not be kept for who asks again');
  });
  await Promise.all([trail.end(entry, undefined), keeping, heard(entry.commits, call.signal)]);
  return answer;
}

function mutationOf(entry: AuditedMutation, claim: Claim | undefined): Parameters<typeof during>[0] {
  return {
    addTo(transaction) {
      const { compare, then } = claim?.addTo() ?? { compare: [], then: [] };
      return { compare, then: [entry.put(transaction), ...then] };
    },
    onCommitted(transaction, revision) {
      entry.onCommitted(transaction, revision);
      claim?.onCommitted(revision);
    },
  };
}
