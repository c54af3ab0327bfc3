/** Parts of a command that may take a while: whoever waits sees that they go on, and each of them ends. */
import { type ErrorCode, FlynnError } from '@flynn/kit/errors';
import { raceAbort, withDeadline } from '@flynn/kit/retry';

export type Report = (line: string) => void;

const graceMs = 500;

export type Part = Readonly<{
  /** For people, as in "removing containers". */
  what: string;
  deadlineMs: number;
  report: Report;
  /** Default: after 5 s without a word, and every 10 s from then on. */
  quietMs?: number;
}>;

/**
 * Tells when nothing was told for a while. `timeout` at the deadline, whether the task heeds its signal or not, saying what
 * to do next.
 */
export async function timed<T>(
  { what, deadlineMs, report, quietMs = 5_000 }: Part,
  task: (signal: AbortSignal, report: Report) => Promise<T>,
): Promise<T> {
  const signal = withDeadline(deadlineMs);
  const startedMs = performance.now();
  let timer: NodeJS.Timeout | undefined;
  const wait = (ms: number): void => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      report(`${what}: ${Math.round((performance.now() - startedMs) / 1_000)} s so far`);
      wait(2 * quietMs);
    }, ms);
  };
  wait(quietMs);
  try {
    const outcome = task(signal, (line) => {
      report(line);
      wait(quietMs);
    });
    // One that heeds its signal gets a moment to say what was in its way.
    return await raceAbort(outcome, withDeadline(deadlineMs + graceMs));
  } catch (error) {
    if (!signal.aborted) throw error;
    // An engine's own word for it is of no use.
    const why = error instanceof FlynnError && isReason(error.code) ? ` (${error.message})` : '';
    throw new FlynnError(
      'timeout',
      `${what} has not ended within ${deadlineMs / 1_000} s${why}. Run the same command again: it goes on where this one was`,
      { cause: error },
    );
  } finally {
    clearTimeout(timer);
  }
}

/** Beside that the deadline has passed. */
function isReason(code: ErrorCode): boolean {
  return code !== 'timeout' && code !== 'cancelled';
}
