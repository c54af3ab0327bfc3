/** Waiting while other hosts' stores take over the blobs that a host which is to go alone has. For whoever asked for that. */
import { lackSchema } from '@flynn/blobstore/api';
import { systemClock } from '@flynn/kit/clock';
import type { Clock } from '@flynn/kit/clock';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { z } from 'zod';
import { namesOf } from '../health/blobs.ts';

const againMs = 2_000;
/** Nothing was taken over for so long: it will not come by itself. */
const patienceMs = 10 * 60_000;

/** The others have not even said what they have: they do so within seconds of their start. */
const silenceMs = 90_000;

const detailSchema = z.object({ soleCopies: lackSchema });

/**
 * Asks again while the answer is that of `checkSoleCopies`, and tells what is left. That stays the answer once nothing was
 * taken over for ten minutes, or the others said nothing for a minute and a half, with `remedy`.
 */
export async function whileCopied<T>(
  ask: () => Promise<T>,
  options: { report: (line: string) => void; remedy: string; signal: AbortSignal; clock?: Clock },
): Promise<T> {
  const { report, remedy, signal, clock = systemClock } = options;
  let told = '';
  let changedMs = clock.now();
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      const detail = detailSchema.safeParse(error instanceof FlynnError ? error.detail : undefined);
      if (!detail.success) throw error;
      const message = messageOf(error);
      if (message !== told) {
        report(`${message}: waiting until another has them`);
        changedMs = clock.now();
      }
      told = message;
      const sole = detail.data.soleCopies;
      const mostMs = sole.count === 0 ? silenceMs : patienceMs;
      if (clock.now() - changedMs >= mostMs) {
        const names = sole.count === 0 ? '' : `: ${namesOf(sole)}`;
        throw new FlynnError(
          'conflict',
          `${message}${names}\n  no other host took any of it over for ${mostMs / 1_000} s: flynn -a blobstore ps and flynn -a blobstore log tell why\n  ${remedy}`,
          { cause: error },
        );
      }
    }
    await clock.sleep(againMs, { signal });
  }
}
