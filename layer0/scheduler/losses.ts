/** Which hosts that are away are lost? */

export type LossInput = Readonly<{
  /** Hosts that hold claims and are not there, and since when. */
  missingSince: ReadonlyMap<string, number>;
  /** How many hosts are there. */
  present: number;
  now: number;
  /** After its lease ended: an agent that only lost its connection for a moment is back by then. */
  graceMs: number;
  /** When more hosts are away than there, it is rather us, or the power came back a moment ago: wait for longer. */
  holdMs: number;
}>;

/** `nextAt` is when the answer changes if nothing else does. With no host left nothing is lost: there is nowhere to go. */
export function judgeLosses(input: LossInput): {
  lost: ReadonlySet<string>;
  nextAt: number | undefined;
  isHeld: boolean;
} {
  const { missingSince, present, now } = input;
  const lost = new Set<string>();
  let nextAt: number | undefined;
  const isHeld = missingSince.size > present;
  if (present === 0) return { lost, nextAt, isHeld };
  for (const [hostId, since] of missingSince) {
    const lostAt = since + (isHeld ? input.holdMs : input.graceMs);
    if (lostAt <= now) lost.add(hostId);
    else nextAt = Math.min(nextAt ?? Infinity, lostAt);
  }
  return { lost, nextAt, isHeld };
}

/** Keeps the time each missing host was first missed. */
export function trackMissing(
  before: ReadonlyMap<string, number>,
  cell: { hosts: ReadonlyMap<string, unknown>; claims: ReadonlyMap<string, unknown> },
  now: number,
): ReadonlyMap<string, number> {
  const missing = new Map<string, number>();
  for (const hostId of cell.claims.keys()) {
    if (!cell.hosts.has(hostId)) missing.set(hostId, before.get(hostId) ?? now);
  }
  return missing;
}
