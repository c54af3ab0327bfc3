/**
 * Tells the platform's jobs of this host whether others still come to them with a key alone. INVARIANT: they keep nobody out
 * for longer than `closedForMs` on the word of an agent that is gone, and not at all on that of one that has stopped.
 */
import { pause } from '@flynn/kit/clock';
import { messageOf } from '@flynn/kit/errors';
import { closedForMs } from '@flynn/kit/identity';
import type { Logger } from '@flynn/kit/log';
import type { JobIdentities } from './job-identities.ts';

const lookMs = 1_000;
const againMs = closedForMs / 5;

/** Until the signal aborts. */
export async function tellJobs(options: {
  jobs: Pick<JobIdentities, 'tell'>;
  isEverybodyKnown: () => boolean;
  log: Logger;
  signal: AbortSignal;
  everyMs?: number;
}): Promise<void> {
  const { jobs, isEverybodyKnown, log, signal, everyMs = lookMs } = options;
  let told: { known: boolean; atMs: number } | undefined;
  const tell = async (known: boolean): Promise<void> => {
    try {
      await jobs.tell(known);
      if (told?.known !== known) log.info({ known }, 'whether all of the platform shows certificates');
      told = { known, atMs: performance.now() };
    } catch (error) {
      log.error(`jobs could not be told whom to let in: ${messageOf(error)}`);
    }
  };
  while (!signal.aborted) {
    const known = isEverybodyKnown();
    if (told?.known !== known || performance.now() - told.atMs >= againMs) await tell(known);
    await pause(everyMs, signal);
  }
  // The next one may be of a version that says nothing about it.
  await tell(false);
}
