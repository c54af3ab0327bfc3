/** What does a host's settings become by what operators ask? Pure: agents and the controller write them by the same rules. */
import type { OperatorSettings } from './cell.ts';

type Drain = NonNullable<OperatorSettings['drain']>;

/** Asked for again a drain goes on, and keeps what is not asked for anew. Whether the host is cordoned is another matter. */
export function drained(
  before: OperatorSettings,
  { deadlineMs, maxParallel }: { deadlineMs?: number | undefined; maxParallel?: number | undefined },
  now: number,
): OperatorSettings {
  const known: Drain = before.drain ?? { startedAt: now, maxParallel: 1, leavesCordon: true };
  const drain = {
    ...known,
    ...(deadlineMs === undefined ? {} : { deadlineAt: now + deadlineMs }),
    ...(maxParallel === undefined ? {} : { maxParallel }),
  };
  return { ...before, drain };
}

/** Who was cordoned stays so; what a version before cordoned along with the drain is opened with its end. */
export function undrained({ drain, ...settings }: OperatorSettings): OperatorSettings {
  if (drain === undefined) return settings;
  return { ...settings, cordoned: settings.cordoned && drain.leavesCordon === true };
}

/** It stays so when a drain that is under way is called off, whoever began that. */
export function cordoned({ drain, ...settings }: OperatorSettings): OperatorSettings {
  return { ...settings, cordoned: true, ...(drain === undefined ? {} : { drain: { ...drain, leavesCordon: true } }) };
}

/** It takes jobs again, so it does not drain either. */
export function opened({ drain: _drain, ...settings }: OperatorSettings): OperatorSettings {
  return { ...settings, cordoned: false };
}
