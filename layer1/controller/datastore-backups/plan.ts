/** What is next for a datastore: a backup, a restore, or nothing until when? Pure. */
import { createHash } from 'node:crypto';
import { nextTick, parseSchedule } from '../cron/schedule.ts';
import type { DatastoreBackups, DatastoreRestore, DatastoreSchedule } from './model.ts';
import type { BackupPlan, DatastoreBackupResource, PendingRestore } from './types.ts';

/** Before each try but the first. */
const pausesMs = [60_000, 5 * 60_000, 15 * 60_000] as const;
export const maxAttempts = pausesMs.length + 1;
/** Of a cluster that was restored: its members have just begun, and may not have agreed on who leads. */
const restorePausesMs = [5_000, 30_000, 120_000] as const;
export const maxRestoreAttempts = restorePausesMs.length + 1;
/** So long members of a cluster that was restored have to come up. */
export const membersMs = 15 * 60_000;
const lookAgainMs = 2_000;

const dayMs = 24 * 3_600_000;
/** The night, in UTC, over which they are spread. */
const night = { fromHour: 1, minutes: 4 * 60 } as const;
export const defaultKeep = 7;
/** Beside those that are kept whole. */
const keptFailures = 20;

export type DatastoreStep =
  | { do: 'wait'; untilMs: number | undefined }
  | { do: 'restore'; restore: PendingRestore }
  /** `record`: undefined for a tick of the schedule, which has none yet. */
  | { do: 'back up'; record: DatastoreBackupResource | undefined };

/** Daily, always at the same minute of the night. */
export function defaultSchedule(appId: string): string {
  const minute = createHash('sha256').update(appId).digest().readUInt32BE(0) % night.minutes;
  return `${minute % 60} ${night.fromHour + Math.floor(minute / 60)} * * *`;
}

/**
 * `records` of this datastore. A restore comes first. While a cluster that came back has not put back what was in the datastore,
 * nothing is backed up by itself: what is in it would take the place of what is to be put back.
 */
export function nextStep(
  { spec, status }: Pick<BackupPlan, 'spec' | 'status'>,
  records: readonly DatastoreBackupResource[],
  nowMs: number,
): DatastoreStep {
  const { restore } = status;
  if (restore?.state === 'waiting') return { do: 'wait', untilMs: undefined };
  if (isOpenRestore(restore)) {
    return restore.nextMs > nowMs && !isAbsurd(restore.nextMs, nowMs)
      ? { do: 'wait', untilMs: restore.nextMs }
      : { do: 'restore', restore };
  }
  const open = inOrder(records).filter(isOpen);
  const due = open.find((one) => one.status.nextMs <= nowMs || isAbsurd(one.status.nextMs, nowMs));
  if (due !== undefined) return { do: 'back up', record: due };
  const waits = open.map((one) => one.status.nextMs);
  const tick = isUnsettled(restore) || open.length > 0 ? undefined : tickOf(spec, status.handledMs, nowMs);
  if (tick !== undefined && tick <= nowMs) return { do: 'back up', record: undefined };
  const next = [...waits, ...(tick === undefined ? [] : [tick])];
  return { do: 'wait', untilMs: next.length === 0 ? undefined : Math.min(...next) };
}

/** What a cluster that came back was to put back, and nobody has. */
export function isUnsettled(restore: PendingRestore | undefined): boolean {
  return restore?.isOwed === true;
}

function tickOf({ schedule, timezone }: BackupPlan['spec'], handledMs: number, nowMs: number): number | undefined {
  if (schedule === undefined) return undefined;
  return isAbsurd(handledMs, nowMs) ? nowMs : nextTick(parseSchedule(schedule, timezone), handledMs);
}

/** Of a clock that was put back by more than a day: it says nothing. */
function isAbsurd(ms: number, nowMs: number): boolean {
  return ms > nowMs + dayMs;
}

export function isOpen({ status: { state } }: DatastoreBackupResource): boolean {
  return state === 'queued' || state === 'running' || state === 'retrying';
}

/** When it is tried again; undefined after the last try. */
export function retryAt(attempt: number, nowMs: number): number | undefined {
  const pauseMs = pausesMs[attempt - 1];
  return pauseMs === undefined ? undefined : nowMs + pauseMs;
}

/** A person who asked for it says themselves whether it is tried again: what came in between would be lost. */
export function restoreRetryAt({ by, attempt }: PendingRestore, nowMs: number): number | undefined {
  const pauseMs = by === undefined ? restorePausesMs[attempt - 1] : undefined;
  return pauseMs === undefined ? undefined : nowMs + pauseMs;
}

/** Whether members are waited for, and until when they are looked for again. */
export function awaitMembers({ by, wantedMs }: PendingRestore, nowMs: number): number | undefined {
  return by === undefined && nowMs < wantedMs + membersMs ? nowMs + lookAgainMs : undefined;
}

/** `20261126T031700Z-k3v9`: says when, and is short enough to be typed. */
export function newBackupId(nowMs: number, random: string): string {
  return `${new Date(nowMs).toISOString().slice(0, 19).replaceAll(/[-:]/g, '')}Z-${random.slice(0, 4)}`;
}

/** In which they were begun: each has in it what was there then. Those that have yet to begin, as they were asked for. */
export function inOrder(records: readonly DatastoreBackupResource[]): DatastoreBackupResource[] {
  return records.toSorted((a, b) => orderOf(a) - orderOf(b) || (a.id < b.id ? -1 : 1));
}

function orderOf({ createdAt, status: { orderMs = Date.parse(createdAt) } }: DatastoreBackupResource): number {
  return orderMs;
}

/** Of one that begins now: later than all others of its datastore, also than those of a clock that was ahead. */
export function nextOrder(records: readonly DatastoreBackupResource[], nowMs: number): number {
  return Math.max(nowMs, ...records.map((one) => orderOf(one) + 1));
}

export function newestComplete(records: readonly DatastoreBackupResource[]): DatastoreBackupResource | undefined {
  return inOrder(records).findLast(isComplete);
}

/**
 * What one of the cluster has in it: the newest. Where what a cluster brought with it was not put back, it is that: it came before
 * all that were made there, and those have in them what the datastore had without it.
 */
export function backupOfCluster(
  records: readonly DatastoreBackupResource[],
  restore: PendingRestore | undefined,
): DatastoreBackupResource | undefined {
  return isUnsettled(restore) ? inOrder(records).find(isComplete) : newestComplete(records);
}

function isComplete({ status }: DatastoreBackupResource): boolean {
  return status.state === 'complete';
}

/** What went wrong since the last that is complete. */
export function failureOf(records: readonly DatastoreBackupResource[]): DatastoreBackups['failure'] {
  const ordered = inOrder(records);
  const since = ordered.findLastIndex(({ status }) => status.state === 'complete') + 1;
  const failed = ordered.slice(since).filter(({ status }) => status.error !== undefined);
  const [first, last] = [failed[0], failed.at(-1)];
  if (first === undefined || last === undefined) return undefined;
  return { since: first.createdAt, count: failed.length, message: last.status.error ?? '' };
}

/**
 * Those beyond the newest so many of their kind. Of what was made for backups of the cluster the newest is enough. What is to
 * be put back, or was and could not be, is not among them.
 */
export function superfluous(
  records: readonly DatastoreBackupResource[],
  keep: number,
  restore?: PendingRestore,
): DatastoreBackupResource[] {
  const newestFirst = inOrder(records).toReversed();
  const complete = newestFirst.filter(isComplete);
  const failed = newestFirst.filter(({ status }) => status.state === 'failed');
  const kinds = Map.groupBy(complete, ({ spec }) => spec.by.is);
  const beyond = [...kinds].flatMap(([kind, all]) => all.slice(kind === 'cluster backup' ? 1 : keep));
  const owed = isUnsettled(restore) ? backupOfCluster(records, restore)?.id : undefined;
  return [...beyond, ...failed.slice(keptFailures)].filter(({ id }) => id !== owed && !isPutBack(id, restore));
}

/** Whether it is that backup which is being put back, or is about to be. */
export function isPutBack(id: string, restore: PendingRestore | undefined): boolean {
  return isOpenRestore(restore) && restore.backupId === id;
}

export function isOpenRestore(restore: PendingRestore | undefined): restore is PendingRestore {
  return restore?.state === 'wanted' || restore?.state === 'running';
}

export function viewSchedule({ spec, status }: BackupPlan): DatastoreSchedule {
  const { schedule, timezone, keep } = spec;
  const next = schedule === undefined ? undefined : nextTick(parseSchedule(schedule, timezone), status.handledMs);
  return {
    ...(schedule === undefined ? {} : { schedule }),
    ...(timezone === undefined ? {} : { timezone }),
    keep,
    ...(next === undefined ? {} : { nextAt: new Date(next).toISOString() }),
  };
}

export function viewRestore({
  wantedMs: _w,
  attempt: _a,
  nextMs: _n,
  fromId: _f,
  backupId,
  ...shown
}: PendingRestore): DatastoreRestore {
  // Of a moment it names none: see momentAsked.
  return backupId === undefined || shown.at !== undefined ? shown : { ...shown, backupId };
}

/** `waitsFor`: its restore, if it has one that has not begun. */
export function viewBackups(
  plan: BackupPlan,
  records: readonly DatastoreBackupResource[],
  waitsFor?: string,
): DatastoreBackups {
  const failure = failureOf(records);
  const { restore } = plan.status;
  const waits = waitsFor === undefined ? {} : { waitsFor };
  return {
    datastore: plan.spec.datastore,
    schedule: viewSchedule(plan),
    ...(restore === undefined ? {} : { restore: { ...viewRestore(restore), ...waits } }),
    ...(failure === undefined ? {} : { failure }),
    backups: inOrder(records).toReversed().map(viewBackup),
  };
}

export function viewBackup({
  id,
  spec,
  status,
  createdAt,
}: DatastoreBackupResource): DatastoreBackups['backups'][number] {
  const { nextMs: _n, orderMs: _o, isAsked: _a, digest: _d, blobBytes: _b, ...shown } = status;
  return { id, by: spec.by, createdAt, ...shown };
}
