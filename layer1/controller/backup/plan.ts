/** Is a backup to be made now? Pure. */
import { nextTick, parseSchedule } from '../cron/schedule.ts';
import type { BackupSchedule } from './resources.ts';

/** Before each try but the first; after the last it is the next tick's turn. */
const pausesMs = [60_000, 5 * 60_000, 15 * 60_000, 60 * 60_000] as const;
export const maxAttempts = pausesMs.length + 1;

export type BackupStep =
  | { do: 'wait'; untilMs: number | undefined }
  /** `retryMs`: when it is tried again if nobody says how it ended; undefined for the last try. */
  | { do: 'make'; tickMs: number; attempt: number; retryMs: number };

export function nextBackup({ spec, status }: Pick<BackupSchedule, 'spec' | 'status'>, nowMs: number): BackupStep {
  const { pending, isWanted = false } = status;
  if (isWanted) return make(nowMs, 1, nowMs);
  if (pending !== undefined) {
    if (pending.nextMs > nowMs) return { do: 'wait', untilMs: pending.nextMs };
    return make(pending.tickMs, pending.attempt + 1, nowMs);
  }
  const schedule = parseSchedule(spec.schedule, spec.timezone);
  const due = nextTick(schedule, status.handledMs);
  if (due === undefined || due > nowMs) return { do: 'wait', untilMs: due };
  // However many were missed, it is one backup.
  return make(nowMs, 1, nowMs);
}

function make(tickMs: number, attempt: number, nowMs: number): BackupStep {
  return { do: 'make', tickMs, attempt, retryMs: nowMs + (pausesMs[attempt - 1] ?? 60 * 60_000) };
}

/** `20261121T030000Z`: in order of time, and good in the name of a file. */
export function stampOf(tickMs: number): string {
  return `${new Date(tickMs).toISOString().slice(0, 19).replaceAll(/[-:]/g, '')}Z`;
}

export function fileOf(cluster: string, tickMs: number): string {
  return `${cluster.replaceAll(/[^\w-]/g, '-')}-${stampOf(tickMs)}.backup`;
}

/**
 * Those of this cluster beyond the newest so many, which `made` is one of: after a clock that was ahead others have later
 * names. Others' files are none of ours.
 */
export function superfluous(names: readonly string[], cluster: string, keep: number, made: string): string[] {
  const [before = ''] = fileOf(cluster, 0).split(stampOf(0));
  const own = names.filter(
    (name) => name !== made && name.startsWith(before) && /^\d{8}T\d{6}Z\.backup$/.test(name.slice(before.length)),
  );
  return own
    .toSorted()
    .toReversed()
    .slice(keep - 1);
}
