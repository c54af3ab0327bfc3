/** Waiting with an end: deadlines, retries with growing pauses, and polling for a condition. */
import { abortError, systemClock } from './clock.ts';
import { FlynnError, asFlynnError, hasCode, messageOf } from './errors.ts';

/** Aborts with `timeout` after `ms`, or as soon as the given signal does. */
export function withDeadline(ms: number, signal?: AbortSignal): AbortSignal {
  const deadline = AbortSignal.timeout(Math.max(0, Math.ceil(ms)));
  return signal === undefined ? deadline : AbortSignal.any([signal, deadline]);
}

/** A pause between half of and the whole of `minMs * 2^attempt`, at most `maxMs`: jitter keeps a crowd from marching in step. */
export function backoffMs(attempt: number, options: { minMs: number; maxMs: number; random?: () => number }): number {
  const full = Math.min(options.maxMs, options.minMs * 2 ** Math.min(attempt, 30));
  return full / 2 + (full / 2) * (options.random ?? Math.random)();
}

export type RetryOptions = {
  /** What is being tried, for the message: "connecting to the controller". */
  what: string;
  signal?: AbortSignal;
  deadlineMs: number;
  /** First pause, default 50 ms; doubles up to maxMs, default 2000 ms. */
  minMs?: number;
  maxMs?: number;
  /** Default: unavailable, timeout, exhausted. */
  isRetryable?: (error: unknown) => boolean;
};

/**
 * Calls `fn` until it succeeds, fails for good, or the deadline passes (`timeout`, the last error as cause). `fn` may
 * have taken effect even when it failed, so it has to be idempotent. The signal `fn` gets aborts at the
 * deadline; an `fn` that does not heed it is left behind.
 */
export async function retry<T>(fn: (signal: AbortSignal) => Promise<T>, options: RetryOptions): Promise<T> {
  const { what, signal, deadlineMs, minMs = 50, maxMs = 2000 } = options;
  const isRetryable = options.isRetryable ?? ((error) => isTransient(asFlynnError(error)));
  const limited = withDeadline(deadlineMs, signal);
  let lastError: unknown;
  for (let attempt = 0; ; attempt += 1) {
    if (limited.aborted) throw endOfWait(what, deadlineMs, signal, lastError);
    try {
      return await raceAbort(fn(limited), limited);
    } catch (error) {
      // An attempt cut short by the deadline says less than the failure before it.
      lastError = limited.aborted && lastError !== undefined ? lastError : error;
      if (limited.aborted) throw endOfWait(what, deadlineMs, signal, lastError);
      if (!isRetryable(error)) throw error;
    }
    await pause(backoffMs(attempt, { minMs, maxMs }), limited);
  }
}

function isTransient(error: FlynnError): boolean {
  return hasCode(error, 'unavailable', 'timeout', 'exhausted');
}

export type WaitOptions = { what: string; deadlineMs: number; intervalMs?: number; signal?: AbortSignal };

/**
 * Polls until the probe answers something other than undefined or false. A probe that throws has not answered yet; its
 * last error becomes the cause of the `timeout`.
 */
export async function waitFor<T>(
  probe: () => Promise<T | undefined | false> | T | undefined | false,
  options: WaitOptions,
): Promise<T> {
  const { what, deadlineMs, intervalMs = 50, signal } = options;
  const limited = withDeadline(deadlineMs, signal);
  let lastError: unknown;
  for (;;) {
    try {
      const answer = await raceAbort(probe(), limited);
      if (answer !== undefined && answer !== false) return answer;
      lastError = undefined;
    } catch (error) {
      if (!limited.aborted) lastError = error;
    }
    if (limited.aborted) throw endOfWait(what, deadlineMs, signal, lastError);
    await pause(intervalMs, limited);
  }
}

/** Sleeps, or wakes early when the signal aborts; the caller looks at the signal next. */
async function pause(ms: number, signal: AbortSignal): Promise<void> {
  try {
    await systemClock.sleep(ms, { signal });
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

/** The promise's outcome, or the abort if that comes first; the promise itself goes on unobserved. */
export async function raceAbort<T>(promise: Promise<T> | T, signal: AbortSignal): Promise<T> {
  if (signal.aborted) {
    void Promise.resolve(promise).catch(() => undefined);
    throw abortError(signal);
  }
  const aborted = Promise.withResolvers<never>();
  const onAbort = () => aborted.reject(abortError(signal));
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([promise, aborted.promise]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

function endOfWait(what: string, deadlineMs: number, signal: AbortSignal | undefined, lastError: unknown): FlynnError {
  if (signal?.aborted === true) return abortError(signal);
  const because = lastError === undefined ? '' : `: ${messageOf(lastError)}`;
  return new FlynnError('timeout', `waited ${secondsText(deadlineMs)} for ${what}${because}`, { cause: lastError });
}

function secondsText(ms: number): string {
  return `${Number((ms / 1000).toFixed(ms < 1000 ? 2 : 1))} s`;
}
