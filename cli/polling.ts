/** Asking until something is so, of what goes on by itself in the cluster. */
import { type WaitOptions, waitFor } from '@flynn/kit/retry';
import { isPassing } from './logs/stream.ts';

/**
 * As `waitFor`, but only what passes by itself is asked again: who may not know, or asks for what is gone, is told at once and not
 * at the deadline.
 */
export async function pollUntil<T>(probe: () => Promise<T | undefined | false>, options: WaitOptions): Promise<T> {
  const ended = await waitFor(async () => {
    try {
      const value = await probe();
      return value === undefined || value === false ? undefined : { value };
    } catch (error) {
      if (isPassing(error)) throw error;
      return { error };
    }
  }, options);
  if ('error' in ended) throw ended.error;
  return ended.value;
}
