/** Tokens that have expired open nothing; after a while nobody asks about them either. */
import { hasCode } from '@flynn/kit/errors';
import { removePiece } from '@flynn/resource/piece';
import type { Compare } from '@flynn/store/store';
import type { Deps } from '../deps.ts';
import { tokenType } from './resources.ts';

/** So long one is told that the token expired, rather than that there is none. */
const keepMs = 7 * 86_400_000;

export async function pruneTokens(
  { resources }: Pick<Deps, 'resources'>,
  { nowMs, epoch, signal }: { nowMs: number; epoch: Compare; signal: AbortSignal },
): Promise<void> {
  const gone = await resources.list(tokenType, {
    signal,
    where: ({ spec }) => spec.expiresAt !== undefined && Date.parse(spec.expiresAt) + keepMs < nowMs,
  });
  for (const token of gone) {
    try {
      await resources.commit([removePiece(tokenType, token), { compare: [epoch] }], { signal });
    } catch (error) {
      // Taken back by somebody at the same time, or another worker leads now.
      if (!hasCode(error, 'conflict')) throw error;
    }
  }
}
