/** A running job's instances in discovery. Discovery may be away; then it is tried again, and never at the job's cost. */
import { abortError, pause } from '@flynn/kit/clock';
import { messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { backoffMs, raceAbort, retry } from '@flynn/kit/retry';

export type Instance = { service: string; id: string; address: string; attributes: Record<string, string> };

/** What the agent needs of discovery's registry. */
export interface Announcer {
  register(instance: Instance): Promise<unknown>;
  deregister(service: string, id: string): Promise<void>;
  vouchFor(services: readonly string[]): void;
}

/**
 * Resolves when it is announced, however long discovery is away: who gave up would leave the job unwatched. Rejects once the
 * signal aborts; then it may be announced or not.
 */
export async function announce(
  announcer: Pick<Announcer, 'register'>,
  instance: Instance,
  { signal, log }: { signal: AbortSignal; log: Logger },
): Promise<void> {
  const { service, id } = instance;
  for (let attempt = 0; ; attempt += 1) {
    if (signal.aborted) throw abortError(signal);
    try {
      await raceAbort(announcer.register(instance), signal);
      return;
    } catch (error) {
      if (attempt === 0 && !signal.aborted)
        log.warn(`could not announce ${service}/${id}, trying on: ${messageOf(error)}`);
    }
    await pause(backoffMs(attempt, { minMs: 50, maxMs: 2_000 }), signal);
  }
}

/** How long a stopping job waits for discovery to forget it. Longer, and what is away would keep jobs from being stopped. */
const withdrawDeadlineMs = 5_000;

export async function withdraw(
  announcer: Announcer,
  service: string,
  id: string,
  options: { log: Logger },
): Promise<void> {
  try {
    await retry(() => announcer.deregister(service, id), {
      what: `taking ${service}/${id} out of discovery`,
      deadlineMs: withdrawDeadlineMs,
      isRetryable: () => true,
    });
  } catch (error) {
    options.log.warn(`${messageOf(error)}: it goes on without; routers find out when it no longer answers`);
  }
}
