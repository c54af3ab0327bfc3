/**
 * What did somebody press of + and −, and is it still to be sent? Pure. A count is sent once: what the cluster says after that
 * stands, be it ours or what somebody else made of it meanwhile.
 */

/** `sent`: counts of this wish that were sent already, in their order. The cluster may be yet to tell of them. */
export type Wish = Readonly<{ count: number; sent: readonly number[] }>;

/** One more press; undefined where nothing is wished any more. */
export function pressed(wish: Wish | undefined, wanted: number, by: number): Wish | undefined {
  const { count, sent } = wish ?? { count: wanted, sent: [] };
  const next = Math.max(0, count + by);
  return sent.length === 0 && next === wanted ? undefined : { count: next, sent };
}

export function isDue({ count, sent }: Wish): boolean {
  return sent.at(-1) !== count;
}

export function sentOf({ count, sent }: Wish): Wish {
  return { count, sent: [...sent, count] };
}

/** So many are wanted now, the cluster says. Where that is none of ours, somebody else was here: what is not sent yet is let go. */
export function told(wish: Wish, wanted: number): Wish | undefined {
  if (!wish.sent.includes(wanted)) return undefined;
  return wanted === wish.count && !isDue(wish) ? undefined : wish;
}
