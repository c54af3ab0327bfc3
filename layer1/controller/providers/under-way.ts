/** What a provider has begun and is not through with: it answered 202, and is asked the same again. Pure. */
import { z } from 'zod';
import type { Later } from './protocol.ts';

export const underWaySchema = z.object({
  /** To take it back; else to make it. */
  isOfRemoval: z.boolean(),
  /** How long it was waited for so far, as pauses: no clock that is set has a part in it. */
  waitedMs: z.int(),
  nextMs: z.number(),
  /** It is asked for no more: it refused what it had begun, or took too long. */
  isOver: z.boolean().optional(),
});
export type UnderWay = z.output<typeof underWaySchema>;

export const longestPauseMs = 60_000;
const shortestPauseMs = 1_000;
const usualPauseMs = 5_000;
/** For what is to be made. What is to go is asked for until it is gone. */
export const mostMs = 30 * 60_000;

/** After one more answer of 202. */
export function goingOn(
  before: UnderWay | undefined,
  { laterMs = usualPauseMs }: Later,
  { isOfRemoval, nowMs }: { isOfRemoval: boolean; nowMs: number },
): UnderWay {
  const waitedMs = before?.isOfRemoval === isOfRemoval ? before.waitedMs : 0;
  const pauseMs = Math.min(longestPauseMs, Math.max(shortestPauseMs, laterMs));
  const isOver = !isOfRemoval && waitedMs >= mostMs;
  return { isOfRemoval, waitedMs: waitedMs + pauseMs, nextMs: nowMs + pauseMs, ...(isOver ? { isOver } : {}) };
}
