/** When was there a collection, may there be another by this clock, and what keeps it from ending? */
import { hasCode } from '@flynn/kit/errors';
import { decodeJson } from '@flynn/store/codec';
import type { Compare, Store } from '@flynn/store/store';
import { z } from 'zod';
import { beside } from '../audit/mutation.ts';
import { aheadSince } from '../clocks/believed-clock.ts';
import type { Deps } from '../deps.ts';

const key = '/flynn/collection';

const stateSchema = z.object({
  /** The last that began by a clock that was believed. */
  begunMs: z.int().optional(),
  /** One by a clock that was not: the first since then. */
  aheadMs: z.int().optional(),
  /** None has ended well since then. `isUnreadable`: for a record that cannot be read. */
  failure: z.object({ since: z.string(), message: z.string(), isUnreadable: z.boolean() }).optional(),
});
export type RoundState = Readonly<z.output<typeof stateSchema>>;

/**
 * What is known once a round is begun now; without `aheadMs` it may collect. What is too old is so by the clock alone, and is
 * gone for good: one that leaps ahead is not believed at once. `usedMs`: when the blob store last knew of a use, for the first
 * round. Pure.
 */
export function beginRound(before: RoundState, nowMs: number, usedMs: number | undefined): RoundState {
  const { begunMs, aheadMs, ...rest } = before;
  const sinceMs = aheadSince({ lastMs: begunMs ?? usedMs, aheadMs }, nowMs);
  if (sinceMs === undefined) return { ...rest, begunMs: nowMs };
  return { ...rest, ...(begunMs === undefined ? {} : { begunMs }), aheadMs: sinceMs };
}

/**
 * What time it is, where what is over goes for good: by a clock that is ahead, as beginRound says, when it was believed last. A
 * look is not noted: rounds are, every half an hour.
 */
export async function believedNow(
  { store, now }: Pick<Deps, 'store' | 'now'>,
  { signal }: { signal: AbortSignal },
): Promise<number> {
  const { begunMs, aheadMs } = await readRounds(store, signal);
  const nowMs = now();
  return begunMs === undefined || aheadSince({ lastMs: begunMs, aheadMs }, nowMs) === undefined ? nowMs : begunMs;
}

/** What cannot be read says nothing: the next round is the first, and writes it anew. */
export async function readRounds(store: Store, signal: AbortSignal): Promise<RoundState> {
  const entry = await store.get(key, { signal });
  if (entry === undefined) return {};
  try {
    return decodeJson(stateSchema, entry.value, key);
  } catch (error) {
    if (!hasCode(error, 'invalid')) throw error;
    return {};
  }
}

export async function writeRounds(
  store: Store,
  state: RoundState,
  { signal, epoch }: { signal: AbortSignal; epoch?: Compare },
): Promise<void> {
  const compare = epoch === undefined ? [] : [epoch];
  await beside(() => store.transact({ compare, then: [{ put: key, value: JSON.stringify(state) }] }, { signal }));
}
