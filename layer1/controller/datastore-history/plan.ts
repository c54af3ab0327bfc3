/** What is next for a datastore's history: to collect, to copy all there is, or nothing until when? Pure. */
import { allPieces, logAfter } from './pieces.ts';
import type { Archive, HistoryStatus } from './types.ts';

export const defaultHistoryDays = 7;
export const collectEveryMs = 60_000;
/** While nothing is kept the log must not be kept for it, either. */
export const skipEveryMs = 3_600_000;
/** A copy that ended so long before is older than what the log, collected now, is whole until (collecting.ts). */
export const settleMs = 4_000;
/** So much at once comes of somebody who is busy: there is more by then, and members keep 2 GB. */
export const busyBytes = 128 * 1024 ** 2;
/** More do not wait to be merged: where they cannot be, a record that grows would meet the limit of the store. */
export const mostRecent = 512;
/** Members may just begin. */
const shortestPauseMs = 5_000;
export const longestPauseMs = 5 * 60_000;

export const dayMs = 24 * 3_600_000;
const weekMs = 7 * dayMs;
/** What a copy that is a day old, or a week, has to have behind it for another. */
const muchBytes = 16 * 1024 ** 2;
const littleBytes = 64 * 1024;
const basePausesMs = [60_000, 5 * 60_000, 15 * 60_000] as const;
const laterPauseMs = 3_600_000;
/** What outruns the collecting of its log, a bulk load, is not copied beside that: a run has to last first. */
const gapPauseMs = 5 * 60_000;
/** A gap after so long is one by itself: what is loaded every hour has a copy in between. */
const calmMs = 30 * 60_000;

export type Due = { is: 'due' } | { is: 'wait'; untilMs: number | undefined };

export function isDue(nextMs: number, nowMs: number): boolean {
  return nextMs <= nowMs || isAbsurd(nextMs, nowMs);
}

/** Of a clock that was put back by more than a day: it says nothing. */
function isAbsurd(ms: number, nowMs: number): boolean {
  return ms > nowMs + dayMs;
}

/** Of a run that is over now. */
export function endOf({
  run,
  begunMs,
  untilMs,
}: Pick<HistoryStatus, 'run' | 'begunMs' | 'untilMs'>): NonNullable<HistoryStatus['ended']> {
  return untilMs === undefined ? [] : [{ run, ...(begunMs === undefined ? {} : { sinceMs: begunMs }), untilMs }];
}

/** With one more, now. */
export function gapsWith({ gaps = 0, begunMs = 0 }: Pick<HistoryStatus, 'gaps' | 'begunMs'>, nowMs: number): number {
  return nowMs - begunMs >= calmMs ? 1 : gaps + 1;
}

export function collectRetryMs(failures: number): number {
  return Math.min(longestPauseMs, shortestPauseMs * 2 ** Math.min(failures - 1, 8));
}

export function baseRetryMs(attempt: number): number {
  return basePausesMs[attempt - 1] ?? laterPauseMs;
}

/** A copy begins a run. Another is made so that the log after it is not long, and that old ones can go. */
export function baseDue(archive: Archive, status: HistoryStatus, nowMs: number): Due {
  const { at, base: tried, run } = status;
  if (at === undefined) return { is: 'wait', untilMs: undefined };
  const wantedMs = baseWantedMs(archive, status, nowMs);
  if (wantedMs === undefined) return { is: 'wait', untilMs: undefined };
  const isTried = tried?.run === run && tried.error !== undefined && !isAbsurd(tried.nextMs, nowMs);
  const fromMs = isTried ? Math.max(wantedMs, tried.nextMs) : wantedMs;
  return fromMs <= nowMs ? { is: 'due' } : { is: 'wait', untilMs: fromMs };
}

/** None: what was written since the last is too little. */
function baseWantedMs(archive: Archive, status: HistoryStatus, nowMs: number): number | undefined {
  const last = archive.bases.findLast(({ run, isLost }) => run === status.run && isLost !== true);
  if (last === undefined) return firstWantedMs(archive, status, nowMs);
  if (isAbsurd(last.startedMs, nowMs)) return 0;
  const { after, gap } = logAfter(last, allPieces(archive, status));
  // By a copy whose log does not go on from it nothing is gone back to. More of it may be lost, part by part.
  if (gap >= 0) return last.startedMs + laterPauseMs;
  const bytes = after.reduce((sum, one) => sum + one.bytes, 0);
  // All copies together are so no larger than the log of the days that are kept, and two of them.
  if (bytes >= Math.max(muchBytes, last.bytes)) return last.startedMs + dayMs;
  return bytes >= littleBytes ? last.startedMs + weekMs : undefined;
}

/** Of a run. After gaps in quick succession it waits as long as the last one took, and longer: a copy is a load of its own. */
function firstWantedMs({ bases }: Archive, { begunMs = 0, gaps = 0 }: HistoryStatus, nowMs: number): number {
  const last = bases.at(-1);
  if (gaps === 0 || isAbsurd(begunMs, nowMs)) return 0;
  const tookMs = last === undefined || gaps === 1 ? 0 : last.endedMs - last.startedMs;
  return begunMs + Math.min(laterPauseMs, Math.max(gapPauseMs, tookMs) * 2 ** Math.min(gaps - 1, 8));
}
