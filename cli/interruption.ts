/** Work that ends by Ctrl-C, and takes away what it had begun. */
import { FlynnError } from '@flynn/kit/errors';
import type { Io } from './io.ts';

/** `said`: what is so then. */
export async function untilInterrupted<T>(
  io: Pick<Io, 'onSignal'>,
  said: string,
  task: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const interrupted = new AbortController();
  const end = (): void => interrupted.abort(new FlynnError('cancelled', said));
  const stops = [io.onSignal('SIGINT', end), io.onSignal('SIGTERM', end)];
  try {
    return await task(interrupted.signal);
  } finally {
    for (const stop of stops) stop();
  }
}
