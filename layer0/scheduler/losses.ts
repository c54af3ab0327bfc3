/** Which hosts that are away are lost, and which are only suspected? */
import type { Cell } from './cell-view.ts';

export type LossInput = Readonly<{
  /** Hosts that hold claims and are not there, and since when. */
  missingSince: ReadonlyMap<string, number>;
  /** How many hosts are there. */
  present: number;
  now: number;
  /** After its lease ended: an agent that only lost its connection for a moment is back by then. */
  graceMs: number;
  /** When more hosts went at once than are there, it is rather us, or the power came back a moment ago: wait for longer. */
  holdMs: number;
  /** Until when that was so, if ever. */
  heldUntil?: number;
  /** So long after that those still away are waited for: what took all of them is over, and they come back one by one. */
  returnMs: number;
}>;

export type LossVerdict = Readonly<{
  lost: Set<string>;
  /** Away for longer than the grace, and not given up, because so many are: worth telling people. */
  suspects: ReadonlySet<string>;
  /** When the answer changes if nothing else does. */
  nextAt: number | undefined;
  isHeld: boolean;
}>;

/** With no host left nothing is lost: there is nowhere to go. */
export function judgeLosses(input: LossInput): LossVerdict {
  const { missingSince, present, now, graceMs, heldUntil = -Infinity } = input;
  const lost = new Set<string>();
  const suspects = new Set<string>();
  let nextAt: number | undefined;
  const isHeld = present === 0 ? missingSince.size > 0 : awayAtOnce(input) > present;
  for (const [hostId, since] of missingSince) {
    const wasHeld = since <= heldUntil && heldUntil < since + input.holdMs;
    const afterHold = wasHeld ? heldUntil + input.returnMs : -Infinity;
    const usualAt = isHeld ? since + input.holdMs : Math.max(since + graceMs, afterHold);
    const lostAt = present === 0 ? Infinity : usualAt;
    if (lostAt <= now) {
      lost.add(hostId);
      continue;
    }
    if (since + graceMs <= now) suspects.add(hostId);
    const changesAt = since + graceMs > now ? since + graceMs : lostAt;
    if (changesAt !== Infinity) nextAt = Math.min(nextAt ?? Infinity, changesAt);
  }
  return { lost, suspects, nextAt, isHeld };
}

/**
 * How many hosts went within one hold of those that are not given up for good yet. One that has been away for longer, as a host
 * that died and has somebody's data, says nothing of what goes on now.
 */
function awayAtOnce({ missingSince, now, holdMs }: LossInput): number {
  let from = Infinity;
  for (const since of missingSince.values()) if (now < since + holdMs) from = Math.min(from, since - holdMs);
  let away = 0;
  for (const since of missingSince.values()) if (since > from) away += 1;
  return away;
}

const mostNamed = 20;

/** "7 of 10 hosts are away at once: …", for the log and for people; undefined when nothing is held. */
export function suspicionText({ suspects, isHeld }: LossVerdict, present: number, holdMs: number): string | undefined {
  if (!isHeld || suspects.size === 0) return undefined;
  const [away, all] = [suspects.size, suspects.size + present];
  const names = [...suspects].sort();
  const named = [...names.slice(0, mostNamed), ...(away > mostNamed ? [`${away - mostNamed} more`] : [])].join(', ');
  const then = present === 0 ? 'nothing is moved while no host is there' : `their work is held for ${holdMs / 1_000} s`;
  return `${away} of ${all} hosts are away at once (${named}): rather the network or us, ${then}`;
}

/** Keeps the time each missing host was first missed. A host without jobs is missed by nobody. */
export function trackMissing(
  before: ReadonlyMap<string, number>,
  cell: Pick<Cell, 'hosts' | 'hostsWithJobs'>,
  now: number,
): Map<string, number> {
  const missing = new Map<string, number>();
  for (const hostId of cell.hostsWithJobs()) {
    if (!cell.hosts.has(hostId)) missing.set(hostId, before.get(hostId) ?? now);
  }
  return missing;
}
