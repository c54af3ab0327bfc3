/**
 * What may become of an operation? The whole machine, pure: where it is and what happened in, where it goes out.
 *
 *     queued ──assign──▶ waiting ──acknowledge──▶ running ──finish──▶ complete, failed, cancelled
 *        ◀── decline, unacknowledged ──┘             └── silence ──▶ failed
 *        ◀── a build that was lost with its host, or its runner ──┤
 *        ◀── hand over ──────────────────────────────────────────┘
 *
 * `cancel` ends what is queued at once and marks the rest, unless it is forced; `expire` fails what does not run yet.
 */
import { FlynnError } from '@flynn/kit/errors';
import type { Handover, Loss, Operation } from '../model.ts';
import type { OperationResource } from '../resources.ts';
import { whyNotAgain } from './losses.ts';

export type OperationState = Operation['state'];
export type OperationStatus = OperationResource['status'];

export type Outcome = {
  state: 'complete' | 'failed' | 'cancelled';
  error?: string | undefined;
  output?: Record<string, string> | undefined;
};

export type OperationEvent =
  | { type: 'assign'; runnerId: string }
  | { type: 'acknowledge'; runnerId: string; attempt: number }
  | { type: 'decline'; runnerId: string; attempt: number }
  /** Its runner is stopped, and gives back what it has begun. */
  | { type: 'hand over'; runnerId: string; attempt: number; told?: Handover['told'] }
  /** Nobody said in time that the attempt begins. */
  | { type: 'unacknowledged'; attempt: number }
  | { type: 'beat'; runnerId: string }
  /** `loss`: of a build that failed because its host is gone. */
  | { type: 'finish'; runnerId: string; outcome: Outcome; loss?: Loss | undefined }
  /**
   * Its runner is lost, for the reason: where it says which sign of life was the last, or which attempt it was, only if it
   * still is. `loss`: of what may be begun again.
   */
  | { type: 'silence'; reason: string; heartbeatAt?: number; attempt?: number; loss?: Loss | undefined }
  | { type: 'cancel'; isForced: boolean; reason: string }
  /** If it is still to run by then. */
  | { type: 'expire'; expiresAt: string }
  | { type: 'move expiry'; expiresAt: string | undefined }
  /** A newer one took its place, or one it waits for did not complete. */
  | { type: 'abandon'; reason: string };

/** A runner that is stopped again and again is no reason to wait for ever. */
const maxHandovers = 5;

/** What is known of it, for decisions and messages. */
export type OperationFacts = { id: string; status: OperationStatus };

export function hasOperationEnded(state: OperationState): boolean {
  return state === 'complete' || state === 'failed' || state === 'cancelled';
}

/**
 * The status after the event; the very same object if it changes nothing, as with an answer that is repeated. Throws
 * `conflict` where the event has no place.
 */
export function advance(operation: OperationFacts, event: OperationEvent, nowMs: number): OperationStatus {
  const { status } = operation;
  const { heartbeatAt = 0 } = status;
  const at = new Date(nowMs).toISOString();
  switch (event.type) {
    case 'assign':
      if (status.state !== 'queued') throw refusal(operation, 'it cannot be given to a runner');
      return {
        ...status,
        state: 'waiting',
        runnerId: event.runnerId,
        attempt: (status.attempt ?? 0) + 1,
        assignedAt: at,
      };
    case 'acknowledge':
      if (isOf(status, event) && status.state === 'running') return status;
      if (!isOf(status, event) || status.state !== 'waiting') throw notHeld(operation, event.runnerId);
      return { ...status, state: 'running', startedAt: at, heartbeatAt: nowMs };
    case 'decline':
      if (!isOf(status, event) || status.state !== 'waiting') throw notHeld(operation, event.runnerId);
      return requeued(status, at);
    case 'hand over':
      return handedOver(operation, event, at);
    case 'unacknowledged':
      return status.state === 'waiting' && (status.attempt ?? 0) === event.attempt ? requeued(status, at) : status;
    case 'beat':
      if (status.state !== 'running' || status.runnerId !== event.runnerId) throw notHeld(operation, event.runnerId);
      return { ...status, heartbeatAt: nowMs };
    case 'finish':
      return finished(operation, event, at);
    case 'silence':
      if (status.state !== 'running' || (event.heartbeatAt ?? heartbeatAt) !== heartbeatAt) return status;
      // Another runner has it by now.
      if ((event.attempt ?? status.attempt) !== status.attempt) return status;
      return lostOrEnded(status, event.loss, { state: 'failed', error: event.reason }, at);
    case 'cancel':
      if (hasOperationEnded(status.state)) return status;
      if (event.isForced || status.state === 'queued')
        return ended(status, { state: 'cancelled', error: event.reason }, at);
      return status.isCancelRequested === true ? status : { ...status, isCancelRequested: true };
    case 'expire':
      if ((status.state !== 'queued' && status.state !== 'waiting') || status.expiresAt !== event.expiresAt)
        return status;
      return ended(status, { state: 'failed', error: expiryText(status) }, at);
    case 'move expiry': {
      if (status.state !== 'queued' && status.state !== 'waiting') return status;
      const { expiresAt: _old, ...rest } = status;
      return event.expiresAt === undefined ? rest : { ...rest, expiresAt: event.expiresAt };
    }
    case 'abandon':
      return hasOperationEnded(status.state) ? status : ended(status, { state: 'cancelled', error: event.reason }, at);
    default:
      return event satisfies never;
  }
}

function isOf(status: OperationStatus, { runnerId, attempt }: { runnerId: string; attempt: number }): boolean {
  return status.runnerId === runnerId && status.attempt === attempt;
}

/** What was to be stopped is not given to anybody again. */
function requeued(status: OperationStatus, at: string): OperationStatus {
  if (status.isCancelRequested === true) return ended(status, { state: 'cancelled', error: 'it was cancelled' }, at);
  const { runnerId: _runner, assignedAt: _at, ...rest } = status;
  return { ...rest, state: 'queued' };
}

/** What had begun goes on elsewhere. Nothing is begun anew but what has to be, so it may happen more often than a loss. */
function handedOver(
  operation: OperationFacts,
  { runnerId, attempt, told }: { runnerId: string; attempt: number; told?: Handover['told'] },
  at: string,
): OperationStatus {
  const { status } = operation;
  const { handover, handovers = 0 } = status;
  // The answer to it was lost.
  if (handover?.runnerId === runnerId && handover.attempt === attempt) return status;
  if (status.state !== 'running' || !isOf(status, { runnerId, attempt })) throw notHeld(operation, runnerId);
  if (handovers >= maxHandovers) throw refusal(operation, `it was given back ${handovers} times: it is not any more`);
  const given = { at, runnerId, attempt, ...(told === undefined ? {} : { told }) };
  return requeued({ ...asNotBegun(status), handover: given, handovers: handovers + 1 }, at);
}

/** It ran in time: the time to run by does not end what is no fault of whoever asked. */
function asNotBegun(status: OperationStatus): OperationStatus {
  const { startedAt: _started, heartbeatAt: _beat, expiresAt: _expiry, ...rest } = status;
  return rest;
}

function finished(
  operation: OperationFacts,
  { runnerId, outcome, loss }: { runnerId: string; outcome: Outcome; loss?: Loss | undefined },
  at: string,
): OperationStatus {
  const { status } = operation;
  // The answer to it was lost.
  if (hasOperationEnded(status.state) && status.runnerId === runnerId && status.state === outcome.state) return status;
  if (status.state !== 'running' || status.runnerId !== runnerId) throw notHeld(operation, runnerId);
  return lostOrEnded(status, loss, outcome, at);
}

/** What was lost is begun again, unless it is to be stopped, or was lost too often. */
function lostOrEnded(status: OperationStatus, loss: Loss | undefined, outcome: Outcome, at: string): OperationStatus {
  if (loss === undefined || outcome.state !== 'failed') return ended(status, outcome, at);
  const losses = [...(status.losses ?? []), loss];
  const why = whyNotAgain(losses);
  if (why !== undefined && status.isCancelRequested !== true)
    return ended({ ...status, losses }, { ...outcome, error: why }, at);
  // The job that was handed over is gone.
  const { handover: _gone, ...rest } = asNotBegun(status);
  return requeued({ ...rest, losses }, at);
}

function ended(status: OperationStatus, { state, error, output }: Outcome, at: string): OperationStatus {
  const { isCancelRequested: _asked, heartbeatAt: _beat, dependents: _told, ...rest } = status;
  return {
    ...rest,
    state,
    ...(error === undefined ? {} : { error }),
    output: output ?? status.output,
    endedAt: at,
  };
}

function expiryText({ state, expiresAt, runnerId }: OperationStatus): string {
  const by = expiresAt === undefined ? '' : ` at ${expiresAt}`;
  const why = state === 'waiting' ? `${runnerId ?? 'its runner'} had not begun it` : 'no runner had taken it';
  return `it expired${by}: ${why}`;
}

/** Throws `conflict` unless the runner runs the operation. */
export function checkHeld(operation: OperationFacts, runnerId: string): void {
  const { state, runnerId: holder } = operation.status;
  if (state !== 'running' || holder !== runnerId) throw notHeld(operation, runnerId);
}

function notHeld(operation: OperationFacts, runnerId: string): FlynnError {
  const { id, status } = operation;
  const { state, runnerId: holder } = status;
  if ((state === 'running' || state === 'waiting') && holder !== runnerId) {
    return new FlynnError(
      'conflict',
      `operation ${id} is run by ${holder ?? 'another runner'}, not by ${runnerId}: stop working on it`,
    );
  }
  return refusal(operation, state === 'waiting' ? 'say first that you begin it' : 'stop working on it');
}

function refusal({ id, status }: OperationFacts, what: string): FlynnError {
  const because = status.error === undefined ? '' : `: ${status.error}`;
  return new FlynnError('conflict', `operation ${id} is ${status.state}${because}: ${what}`);
}
