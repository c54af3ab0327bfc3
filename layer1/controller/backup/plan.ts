/** Is a backup to be made now? Pure. */
import { nextTick, parseSchedule } from '../cron/schedule.ts';
import type { BackupSchedule } from './resources.ts';

/** Before each try but the first; after the last it is the next tick's turn. */
const pausesMs = [60_000, 5 * 60_000, 15 * 60_000, 60 * 60_000] as const;
export const maxAttempts = pausesMs.length + 1;

const dayMs = 24 * 3_600_000;

const idLength = 8;
const ending = /\d{8}T\d{6}Z\.backup$/;

export type BackupStep =
  | { do: 'wait'; untilMs: number | undefined }
  /** `retryMs`: when it is tried again if nobody says how it ended; undefined for the last try. */
  | { do: 'make'; tickMs: number; attempt: number; retryMs: number };

/**
 * A clock that was put back by less than a day is waited for; what one wrote that was further ahead says nothing, and one
 * backup too many does no harm.
 */
export function nextBackup({ spec, status }: Pick<BackupSchedule, 'spec' | 'status'>, nowMs: number): BackupStep {
  const { pending, isWanted = false } = status;
  if (isWanted) return make(nowMs, 1, nowMs);
  if (pending !== undefined) {
    if (pending.nextMs > nowMs && !isAbsurd(pending.nextMs, nowMs)) return { do: 'wait', untilMs: pending.nextMs };
    return make(pending.tickMs, pending.attempt + 1, nowMs);
  }
  const schedule = parseSchedule(spec.schedule, spec.timezone);
  const due = isAbsurd(status.handledMs, nowMs) ? nowMs : nextTick(schedule, status.handledMs);
  if (due === undefined || due > nowMs) return { do: 'wait', untilMs: due };
  // However many were missed, it is one backup.
  return make(nowMs, 1, nowMs);
}

function isAbsurd(ms: number, nowMs: number): boolean {
  return ms > nowMs + dayMs;
}

function make(tickMs: number, attempt: number, nowMs: number): BackupStep {
  return { do: 'make', tickMs, attempt, retryMs: retryAt(attempt, nowMs) };
}

/** Of one that ended, or began, at that moment. */
export function retryAt(attempt: number, nowMs: number): number {
  return nowMs + (pausesMs[attempt - 1] ?? 60 * 60_000);
}

/** `20261121T030000Z`: in order of time, and good in the name of a file. */
export function stampOf(tickMs: number): string {
  return `${new Date(tickMs).toISOString().slice(0, 19).replaceAll(/[-:]/g, '')}Z`;
}

/** `id` tells clusters of one name apart: one that was restored has the name of the one before. */
export type NamedCluster = Readonly<{ name: string; id: string }>;

export function fileOf(cluster: NamedCluster, tickMs: number): string {
  return `${beginningOf(cluster)}${stampOf(tickMs)}.backup`;
}

/** Of all names of the cluster's backups. */
export function beginningOf({ name, id }: NamedCluster): string {
  return `${name.replaceAll(/[^\w-]/g, '-')}-${id.slice(0, idLength)}-`;
}

/**
 * Those of this cluster beyond the newest so many, which `made` is one of: after a clock that was ahead others have later
 * names. `recorded`: what this cluster is known to have made, for once names were without its id. Others' files are none of
 * ours.
 */
export function superfluous(
  names: readonly string[],
  options: { cluster: NamedCluster; keep: number; made: string; recorded: ReadonlySet<string> },
): string[] {
  const { cluster, keep, made, recorded } = options;
  const momentOf = (name: string): string => ending.exec(name)?.[0] ?? '';
  const own = names.filter((name) => {
    const isOurs = name === `${beginningOf(cluster)}${momentOf(name)}` || recorded.has(name);
    return isOurs && name !== made && momentOf(name) !== '';
  });
  return own.toSorted((one, other) => (momentOf(one) < momentOf(other) ? 1 : -1)).slice(keep - 1);
}
