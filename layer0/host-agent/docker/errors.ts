/** Where the engine's HTTP statuses and sockets' errors become FlynnErrors. */
import { FlynnError, asFlynnError, hasCode, hasErrno, messageOf } from '@flynn/kit/errors';
import type { ErrorCode } from '@flynn/kit/errors';
import { raceAbort, withDeadline } from '@flynn/kit/retry';

const codeOfStatus: Readonly<Record<number, ErrorCode>> = { 400: 'invalid', 404: 'not_found', 409: 'conflict' };

/** The engine answers simple calls in milliseconds; under load creating a container has been seen to take seconds. */
export const callDeadlineMs = 60_000;

function statusOf(error: unknown): number | undefined {
  return error instanceof Error && 'statusCode' in error && typeof error.statusCode === 'number'
    ? error.statusCode
    : undefined;
}

export function isStatus(error: unknown, status: number): boolean {
  return statusOf(error) === status;
}

/** dockerode's "(HTTP code 404) no such container - No such container: x " without the wrapping. */
function engineMessage(error: unknown): string {
  return messageOf(error)
    .replace(/^\(HTTP code \d+\) [^-]*- /, '')
    .trim();
}

export function engineError(error: unknown, doing: string): FlynnError {
  if (error instanceof FlynnError) return error;
  const status = statusOf(error);
  if (status !== undefined) {
    const message = `${doing}: ${engineMessage(error)}`;
    return new FlynnError(codeOfStatus[status] ?? 'internal', message, { cause: error });
  }
  const known = asFlynnError(error);
  // A socket file that is not there is an engine that is not running.
  const isAbsent = hasErrno(error, 'ENOENT', 'EACCES');
  if (isAbsent || known.code === 'unavailable' || /socket hang up/.test(known.message)) {
    const message = `the container engine does not answer (${doing}): is dockerd running?`;
    return new FlynnError('unavailable', message, { cause: error });
  }
  return new FlynnError(known.code, `${doing}: ${known.message}`, { cause: error });
}

/** One call to the engine: with a deadline, its error translated. */
export async function engineCall<T>(
  doing: string,
  call: (signal: AbortSignal) => Promise<T>,
  options: { signal?: AbortSignal; deadlineMs?: number } = {},
): Promise<T> {
  const signal = withDeadline(options.deadlineMs ?? callDeadlineMs, options.signal);
  try {
    // Not every call of the library heeds a signal, and an engine that hangs answers none of them.
    return await raceAbort(call(signal), signal);
  } catch (error) {
    if (hasCode(error, 'timeout')) {
      throw new FlynnError('timeout', `${doing}: the container engine took too long to answer`, { cause: error });
    }
    throw engineError(error, doing);
  }
}
