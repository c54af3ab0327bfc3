/** One of several things that have nothing to do with each other. */
import { hasCode, messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';

/** What fails by itself keeps none of the others from being done, and is said in the log. Without the store nothing is done. */
export async function attempt(what: string, step: () => Promise<void>, log: Logger): Promise<void> {
  try {
    await step();
  } catch (error) {
    if (hasCode(error, 'unavailable', 'timeout', 'cancelled')) throw error;
    log.warn({ err: error }, `could not ${what}, trying again later: ${messageOf(error)}`);
  }
}
