/** Takes operations from the controller's queue and carries them out, several at a time. */
import { operations } from '@flynn/controller/operations/api';
import type { ClaimedOperation } from '@flynn/controller/operations/api';
import type { Operation } from '@flynn/controller/model';
import { systemClock } from '@flynn/kit/clock';
import { FlynnError, hasCode, messageOf } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import type { Logger } from '@flynn/kit/log';
import type { Metrics } from '@flynn/kit/metrics';
import { newId } from '@flynn/kit/ids';
import { raceAbort, withDeadline } from '@flynn/kit/retry';
import { forever } from '@flynn/kit/tasks';
import { executeBuild } from './build-operation.ts';
import { executeDeploy } from './deploy-operation.ts';
import type { Execution, Executor } from './execution.ts';
import type { EnvWatch } from './env-watch.ts';
import { operationMetrics } from './metrics.ts';
import { OperationLines } from './operation-lines.ts';
import { readOwnLogins } from './own-logins.ts';
import { executePoll } from './poll-operation.ts';
import { register } from './registration.ts';
import type { Identity } from './registration.ts';
import type { OwnRegistries } from './registry/access.ts';
import type { Reports } from './reports.ts';
import { executeRelease } from './release-operation.ts';

const executors: Readonly<Record<Operation['kind'], Executor>> = {
  build: executeBuild,
  release: executeRelease,
  deploy: executeDeploy,
  poll: executePoll,
};

export type RunnerDeps = {
  identity: Identity;
  controller: HttpClient;
  reports: Reports;
  blobs: Execution['blobs'];
  /** Its variables: what is asked of them is asked when an operation begins. */
  env: EnvWatch;
  /** A file with logins of its own, as Docker keeps them. */
  registryConfig?: string | undefined;
  /** What else it was started with about them. */
  ownRegistries: OwnRegistries;
  slugRunnerImage: string;
  log: Logger;
  /** Counts what is carried out. */
  metrics?: Metrics;
  heartbeatMs?: number;
  lookMs?: number;
  /** How long what is under way may go on once the runner is told to stop. */
  graceMs?: number;
};

type UnderWay = { ended: Promise<void>; givingUp: AbortController };
/** `givingUp`: nobody wants to hear how it ends. */
type Ends = { stopping: AbortSignal; givingUp?: AbortSignal };

/** After the grace, giving back, cleaning up and reporting fit into what is left of the daemon's 25 s. */
const lastLinesMs = 2_500;
const lastReportMs = 4_000;
const patienceMs = 60_000;
/** Later it has gone to somebody else. */
const acknowledgeMs = 8_000;

/** Runs until the signal aborts and what was under way has ended. */
export async function runOperations(deps: RunnerDeps, signal: AbortSignal): Promise<void> {
  const { log, identity } = deps;
  const stopping = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const onAbort = (): void => {
    const reason = new FlynnError('unavailable', 'the runner was stopped: push again');
    timer = setTimeout(() => stopping.abort(reason), deps.graceMs ?? 20_000);
  };
  signal.addEventListener('abort', onAbort, { once: true });
  const session = newId();
  const counts = operationMetrics(deps.metrics, identity.slots);
  const running = new Map<string, UnderWay>();
  let isRegistered = false;
  let following: Promise<void> | undefined;
  const whole = signal;
  const step = async (signal: AbortSignal): Promise<void> => {
    if (!isRegistered) await register(deps, session, signal);
    isRegistered = true;
    while (running.size >= identity.slots)
      await raceAbort(Promise.race([...running.values()].map((one) => one.ended)), signal);
    try {
      await deps.env.first(signal);
      following ??= deps.env.follow(whole);
      for (const operation of await claim(deps, identity.slots - running.size, signal)) {
        const before = running.get(operation.id);
        const givingUp = new AbortController();
        const work = async (): Promise<Outcome['state'] | undefined> => {
          // It was taken for lost, and is given to this very process: what it did of it before is nothing any more.
          before?.givingUp.abort(new FlynnError('cancelled', 'it was begun again'));
          await before?.ended;
          return begin(operation, deps, signal, { stopping: stopping.signal, givingUp: givingUp.signal });
        };
        const ended = counts.timed(operation.kind, work).finally(() => {
          if (running.get(operation.id)?.ended === ended) running.delete(operation.id);
        });
        running.set(operation.id, { ended, givingUp });
      }
    } catch (error) {
      // It was forgotten, or the store is a new one.
      if (hasCode(error, 'unauthenticated')) isRegistered = false;
      throw error;
    }
  };
  await forever('taking operations', step, { signal, log });
  await Promise.all([...[...running.values()].map((one) => one.ended), following]);
  clearTimeout(timer);
}

async function claim(
  { controller, identity: { id, token } }: RunnerDeps,
  slots: number,
  signal: AbortSignal,
): Promise<ClaimedOperation[]> {
  const input = { params: { runner: id }, body: { token, slots } };
  return (await controller.call(operations.claim, input, { signal, timeoutMs: 40_000 })).operations;
}

/** Says that it begins, and carries it out, and answers how it ended; or says that it does not. Never rejects. */
async function begin(
  operation: ClaimedOperation,
  deps: RunnerDeps,
  signal: AbortSignal,
  ends: Ends,
): Promise<Outcome['state'] | undefined> {
  const { reports, log } = deps;
  const { id, attempt = 0 } = operation;
  const isBegun = !signal.aborted;
  try {
    await reports.send(isBegun ? 'begun' : 'declined', { id, attempt }, { deadlineMs: acknowledgeMs });
  } catch (error) {
    log.warn({ err: error, operation: id }, 'an operation could not be begun: it goes to another runner');
    return undefined;
  }
  return isBegun ? runOperation(operation, deps, ends) : undefined;
}

type Outcome = { state: 'complete' | 'failed' | 'cancelled'; error?: string; output?: Record<string, string> };

export async function runOperation(
  operation: ClaimedOperation,
  deps: RunnerDeps,
  { stopping, givingUp = new AbortController().signal }: Ends,
): Promise<Outcome['state'] | undefined> {
  const { controller, blobs, registryConfig, ownRegistries, slugRunnerImage, lookMs = 5_000 } = deps;
  const log = deps.log.child({ operation: operation.id, kind: operation.kind, app: operation.appId });
  const { id, token } = deps.identity;
  const params = { runner: id, operation: operation.id };
  await using lines = new OperationLines(controller, params, token, operation.logLines);
  const cancelling = new AbortController();
  const ended = new AbortController();
  const beating = beat(deps, params, cancelling, ended.signal);
  const signal = AbortSignal.any([stopping, cancelling.signal, lines.signal, givingUp]);
  using flushing = endingWith(stopping, lastLinesMs);
  using reporting = endingWith(stopping, lastReportMs);
  const handover: Execution['handover'] = {};
  // What names its runner is nobody else's.
  const isGivenBack = (): boolean =>
    stopping.aborted && operation.target?.runnerId === undefined && !cancelling.signal.aborted && !givingUp.aborted;
  log.info('operation begun');

  let outcome: Outcome;
  let isOthers = false;
  try {
    const write = (...texts: string[]): Promise<void> => lines.write(...texts);
    await write(...goingOn(operation, id));
    const output = await executors[operation.kind]({
      operation,
      controller,
      blobs,
      env: () => deps.env.fresh(signal),
      ownLogins: () => readOwnLogins(registryConfig),
      ownRegistries,
      slugRunnerImage,
      lookMs,
      write,
      signal,
      handover,
      isGivenBack,
    });
    outcome = { state: 'complete', output };
  } catch (error) {
    outcome = outcomeOf(error, { kind: operation.kind, isCancelled: cancelling.signal.aborted, stopping, log });
    isOthers = isGivenBack();
  }
  try {
    await raceAbort(lines.flush(), withDeadline(patienceMs, AbortSignal.any([flushing.signal, givingUp])));
  } catch (error) {
    log.warn({ err: error }, 'the last lines of the operation did not arrive');
    // Told twice is better than not at all.
    delete handover.told;
  }
  try {
    const item = { id: operation.id, attempt: operation.attempt ?? 0, handover };
    if (isOthers && (await isTaken(deps, item, reporting.signal))) return undefined;
    // Heartbeats go on until the controller knows: an operation nobody holds would be given up.
    const result = { id: operation.id, ...outcome };
    await deps.reports.send('ended', result, {
      signal: AbortSignal.any([reporting.signal, givingUp]),
      deadlineMs: patienceMs,
    });
    log.info({ state: outcome.state, error: outcome.error }, 'operation ended');
  } catch (error) {
    log.error({ err: error, state: outcome.state }, 'the result of the operation could not be reported');
  } finally {
    ended.abort();
    await beating;
  }
  return outcome.state;
}

/** For whoever waits: what the runner before had not told is told by this one. */
function goingOn({ kind, handover }: Operation, runnerId: string): string[] {
  if (handover === undefined) return [];
  return ['', ` !     The runner ${handover.runnerId} was stopped: ${runnerId} goes on with the ${kind}`];
}

/** Whether another runner goes on with it. Not if the controller is of a version before, or it was given back too often. */
async function isTaken(
  { reports, log }: RunnerDeps,
  item: Parameters<Reports['giveBack']>[0],
  signal: AbortSignal,
): Promise<boolean> {
  try {
    await reports.giveBack(item, { signal, deadlineMs: patienceMs });
    log.info({ operation: item.id }, 'operation given back: another runner goes on with it');
    return true;
  } catch (error) {
    log.warn({ err: error, operation: item.id }, 'an operation could not be given back');
    return false;
  }
}

function outcomeOf(
  error: unknown,
  facts: { kind: Operation['kind']; isCancelled: boolean; stopping: AbortSignal; log: Logger },
): Outcome {
  // What became of a rollout that had begun its executor says.
  if (facts.isCancelled) {
    return { state: 'cancelled', error: hasCode(error, 'cancelled') ? error.message : 'it was cancelled' };
  }
  // A rollout is the controller's: it goes on without anybody following it.
  const goesOn = facts.kind === 'deploy' ? '; a rollout that has begun goes on' : '';
  if (facts.stopping.aborted) return { state: 'failed', error: messageOf(facts.stopping.reason) + goesOn };
  // What a person cannot put right is worth a stack.
  if (!hasCode(error, 'invalid', 'conflict', 'not_found', 'denied', 'exhausted')) {
    facts.log.error({ err: error }, 'the operation failed');
  }
  return { state: 'failed', error: messageOf(error) };
}

/** A signal that aborts so long after the given one. */
function endingWith(signal: AbortSignal, afterMs: number): Disposable & { signal: AbortSignal } {
  const ending = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const onAbort = (): void => {
    timer = setTimeout(() => ending.abort(new FlynnError('timeout', 'the runner has to go')), afterMs);
  };
  if (signal.aborted) onAbort();
  else signal.addEventListener('abort', onAbort, { once: true });
  return {
    signal: ending.signal,
    [Symbol.dispose]() {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
    },
  };
}

/** Until `ended`; aborts `cancelling` when the controller says so, or that the operation is somebody else's. */
async function beat(
  { controller, log, identity, heartbeatMs = 4_000 }: RunnerDeps,
  params: { runner: string; operation: string },
  cancelling: AbortController,
  ended: AbortSignal,
): Promise<void> {
  const step = async (signal: AbortSignal): Promise<void> => {
    const sentMs = performance.now();
    // It answers early when there is something to say.
    const input = { params, body: { token: identity.token, waitMs: heartbeatMs } };
    const { cancelled } = await controller.call(operations.heartbeat, input, {
      signal,
      timeoutMs: heartbeatMs + 10_000,
    });
    if (cancelled) cancelling.abort(new FlynnError('cancelled', 'it was cancelled'));
    await systemClock.sleep(Math.max(0, heartbeatMs - (performance.now() - sentMs)), { signal });
  };
  await forever('heartbeat', step, { signal: ended, log, maxMs: heartbeatMs });
}
