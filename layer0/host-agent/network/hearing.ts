/** Who of the peers is heard through WireGuard? Each sends something every 20 s, whether or not there is anything to say. */

export type Heard = Readonly<{
  /** Bytes, as WireGuard counts them. */
  received: number;
  /** When that last changed, in milliseconds of a clock that does not jump. Of one just met: when it was met. */
  atMs: number;
  isLost: boolean;
  /** Since when it is heard again without a longer silence. */
  steadySinceMs: number;
}>;
/** By public key. */
export type Hearing = ReadonlyMap<string, Heard>;

/** Two of its words got lost, and the third had its time. */
const lostMs = 65_000;
/** Who was lost has to be heard for as long before it counts: a way that comes and goes would move others to and fro. */
const steadyMs = 60_000;

/** Where nothing was read, as while the device is made anew, nothing is known better. */
export function hear(before: Hearing, received: ReadonlyMap<string, number>, nowMs: number): Hearing {
  if (received.size === 0) return before;
  return new Map([...received].map(([key, bytes]) => [key, heardOf(before.get(key), bytes, nowMs)]));
}

function heardOf(before: Heard | undefined, received: number, nowMs: number): Heard {
  if (before === undefined) return { received, atMs: nowMs, isLost: false, steadySinceMs: nowMs };
  const wasSilent = isSilent(before, nowMs);
  // A device that was made anew counts from nothing.
  if (received === before.received || received === 0)
    return { ...before, received, isLost: before.isLost || wasSilent };
  const steadySinceMs = wasSilent ? nowMs : before.steadySinceMs;
  return { received, atMs: nowMs, isLost: before.isLost && nowMs - steadySinceMs < steadyMs, steadySinceMs };
}

/** Whether it has been silent for longer than one who has nothing to say is. */
export function isSilent({ atMs }: Heard, nowMs: number): boolean {
  return nowMs - atMs > lostMs;
}
