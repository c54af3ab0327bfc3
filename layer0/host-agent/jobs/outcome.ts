/** What does it mean that a run ended, or never began? */
import { exitCodeText } from '@flynn/kit/exit-codes';
import type { HostJob, JobStatus } from '@flynn/scheduler/cell';
import type { BrokenJob, DesiredJob } from './assigned.ts';
import type { Container } from '../engine/engine.ts';
import { isSingleton } from '../engine/labels.ts';
import { countFailures, restartDelayMs } from './backoff.ts';
import type { JobRecord, StopCause } from './record.ts';
import { withoutRun } from './record.ts';
import { limitsOf } from '../containers/spec.ts';

export type Outcome = Pick<JobRecord, 'status' | 'failures'>;

/** What is known of how a run ended. */
type End = Pick<Container, 'createdAtMs' | 'startedAtMs' | 'endedAtMs' | 'exitCode' | 'isOutOfMemory' | 'error'>;

/** A run that ended. Without a job (nobody wants it any more) it is done. */
export function outcomeOfEnd(job: DesiredJob | undefined, container: End, record: JobRecord, now: number): Outcome {
  const startedAt = container.startedAtMs ?? container.createdAtMs;
  const endedAt = container.endedAtMs ?? now;
  const {
    address,
    nextStartAt: start,
    unhealthySince,
    goesLast,
    error: told,
    exitCode: code,
    ...before
  } = record.status;
  void [address, start, unhealthySince, goesLast, told, code];
  const { exitCode } = container;
  const ended = { ...before, startedAt, endedAt, ...(exitCode === undefined ? {} : { exitCode }) };
  const done = (): Outcome => ({ status: { ...ended, state: 'done', isFinal: true }, failures: 0 });
  if (job === undefined || job.desired === 'stop') return done();
  if (job.template === undefined) {
    return { status: { ...ended, state: 'failed', isFinal: true, error: job.problem.text }, failures: 0 };
  }

  const cause = record.stopCause;
  const isRestarted = job.template.restart === 'always';
  if (cause?.type === 'expired') {
    const error = `ran longer than its limit of ${(job.template.maxRuntimeMs ?? 0) / 1000} s and was stopped`;
    return { status: { ...ended, state: 'failed', isFinal: true, error }, failures: 0 };
  }
  if (cause?.type === 'fenced' && isRestarted) {
    // No fault of its own: it neither waits nor counts.
    const waiting = { state: 'crashed' as const, isFinal: false, error: fencedMessage, nextStartAt: now };
    return { status: { ...ended, ...waiting }, failures: record.failures };
  }
  if (cause?.type === 'requested') {
    return isRestarted
      ? { status: { ...ended, state: 'done', isFinal: false, nextStartAt: now }, failures: 0 }
      : done();
  }
  if (cause === undefined && !isRestarted && container.exitCode === 0) return done();

  const error = cause === undefined ? explainEnd(container, job) : explainStop(cause);
  const crashed = { ...ended, state: 'crashed' as const, error };
  if (!isRestarted) return { status: { ...crashed, isFinal: true }, failures: 0 };
  // While it hung it did not run well, however long that was.
  const runMs = cause?.type === 'unhealthy' ? cause.wellMs : endedAt - startedAt;
  const failures = countFailures(record.failures, runMs);
  // What never answered will hardly answer a moment later, and the pause lets people be told why it was stopped.
  const leastDelayMs = cause?.type === 'unhealthy' ? 1000 : 0;
  const nextStartAt = now + Math.max(leastDelayMs, restartDelayMs(failures));
  return { status: { ...crashed, isFinal: false, nextStartAt }, failures };
}

/** A run whose container is gone: somebody removed it, or the engine lost it. */
export function outcomeOfVanished(job: HostJob, startedAt: number, record: JobRecord, now: number): Outcome {
  const end = { createdAtMs: startedAt, startedAtMs: startedAt, endedAtMs: now, isOutOfMemory: false };
  return outcomeOfEnd(job, { ...end, error: 'its container was removed' }, record, now);
}

/**
 * A start that did not work. `isTransient`: nothing is wrong with the job, something it needs is away. `endedAt`: of the run
 * before, which is told about already. `isEngineHung`: nothing is started here until people restart the engine, so a service is
 * given back for another host, and no deployment fails of it. One of which there may never be two stays: it may yet start here.
 */
export function outcomeOfFailedStart(
  job: HostJob,
  record: JobRecord,
  failure: { message: string; isTransient: boolean; isEngineHung?: boolean; endedAt?: number | undefined },
  now: number,
): Outcome {
  const status = withoutRun(record.status);
  const before = failure.endedAt === undefined ? {} : { endedAt: failure.endedAt };
  const error = failure.message;
  if (failure.isTransient && failure.isEngineHung === true && job.template.restart === 'always' && !isSingleton(job)) {
    const given = `${error}: its host's container engine hangs, and another host is to run it`;
    return { status: { ...status, state: 'done', isFinal: true, error: given, endedAt: now }, failures: 0 };
  }
  const hasPatience = job.template.restart === 'always' || now - job.createdAt < patienceMs;
  if (failure.isTransient && hasPatience) {
    return {
      status: { ...status, ...before, state: 'pending', isFinal: false, error, nextStartAt: now + 1000 },
      failures: record.failures,
    };
  }
  const failed = { ...status, state: 'failed' as const, error, endedAt: now };
  if (job.template.restart === 'never') return { status: { ...failed, isFinal: true }, failures: 0 };
  const failures = record.failures + 1;
  // Unlike a crash, the same failure a moment later is all but certain.
  const nextStartAt = now + Math.max(1000, restartDelayMs(failures));
  return { status: { ...failed, isFinal: false, nextStartAt }, failures };
}

/** A job that is wanted and cannot be run, with nothing running. */
export function outcomeOfBroken(job: BrokenJob, record: JobRecord, now: number): Outcome {
  const status = withoutRun(record.status);
  return { status: { ...status, state: 'failed', isFinal: true, error: job.problem.text, endedAt: now }, failures: 0 };
}

/** Somebody waits for a job that is not started again; it should learn that the host cannot. */
const patienceMs = 120_000;

/** A job that is not wanted and has nothing running. */
export function outcomeOfNothing(record: JobRecord, now: number): Outcome {
  const { nextStartAt: _, unhealthySince: __, goesLast: ___, ...status } = record.status;
  const state = status.state === 'crashed' || status.state === 'failed' ? status.state : 'done';
  return { status: { ...status, state, isFinal: true, endedAt: status.endedAt ?? now }, failures: 0 };
}

const fencedMessage = 'stopped: its host could not renew its lease, so that another host may run it';

function explainStop(cause: Exclude<StopCause, { type: 'expired' | 'requested' }>): string {
  if (cause.type === 'fenced') return fencedMessage;
  return cause.type === 'unwanted' ? 'stopped: it was not wanted any more' : cause.message;
}

/** The code of a process that was killed: without it, what was killed for its memory was another one, at any time of the run. */
const killedCode = 137;

function explainEnd(container: End, job: HostJob): string {
  const { memoryBytes } = limitsOf(job.template);
  if (container.isOutOfMemory && container.exitCode === killedCode) return outOfMemoryMessage(memoryBytes);
  if (container.error !== undefined) return container.error;
  const code = container.exitCode ?? 0;
  const ended = code === 0 ? 'ended by itself, with exit code 0' : `ended with ${exitCodeText(code)}`;
  return container.isOutOfMemory ? `${ended}; a process of it had been ${outOfMemoryMessage(memoryBytes)}` : ended;
}

/** For whoever waits for its end, beside the exit code. */
export function outOfMemoryText({
  exitCode,
  isOutOfMemory,
}: Pick<End, 'exitCode' | 'isOutOfMemory'>): string | undefined {
  if (!isOutOfMemory || exitCode === 0) return undefined;
  return exitCode === killedCode
    ? outOfMemoryMessage(undefined)
    : `a process of it was ${outOfMemoryMessage(undefined)}`;
}

export function outOfMemoryMessage(limitBytes: number | undefined): string {
  const limit = limitBytes === undefined ? '' : ` (limit ${Math.round(limitBytes / 2 ** 20)} MiB)`;
  return `killed: out of memory${limit}`;
}

/** Whether this end of the container is the one the status tells about. */
export function isSettled({ endedAt }: JobStatus, container: Container): boolean {
  return endedAt !== undefined && endedAt >= (container.endedAtMs ?? container.createdAtMs);
}

/** Whether the last run is told about; a status that tells of a start without one is of a run under way. */
export function isEnded({ state }: JobStatus): boolean {
  return state === 'done' || state === 'crashed' || state === 'failed';
}
