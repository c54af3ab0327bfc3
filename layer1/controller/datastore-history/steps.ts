/**
 * Does what is next for a datastore's history: collects its log, and forgets what is too old. Beside that few pieces are made of
 * many (merging.ts), all there is is copied (copying.ts), and what is kept of both is asked after (looking.ts).
 *
 * INVARIANTS. One worker does it, the one that leads: what it writes carries its term's compare. A record names a blob only once
 * all of it is stored. The database is told that its log was kept by the collection after, when that is written down: whoever
 * dies in between collects the same once more. A piece is in the archive before it leaves the newest.
 */
import { FlynnError, hasCode, messageOf } from '@flynn/kit/errors';
import type { Again } from '@flynn/resource/reconciler';
import { guard, memberOf } from '../datastore-backups/subject.ts';
import type { StepDeps, StepOptions } from '../datastore-backups/subject.ts';
import { appType } from '../resources.ts';
import { markOf, writeCatalogue } from './catalogue.ts';
import type { HistoryBlobs } from './catalogue.ts';
import { collectLog } from './collecting.ts';
import type { Collected } from './collecting.ts';
import {
  busyBytes,
  collectEveryMs,
  collectRetryMs,
  endOf,
  gapsWith,
  isDue,
  longestPauseMs,
  mostRecent,
  settleMs,
  skipEveryMs,
} from './plan.ts';
import { historyDays, subjectOf } from './subject.ts';
import type { HistorySubject } from './subject.ts';
import { forget } from './forgetting.ts';
import { archiveType, historyType } from './types.ts';
import type { Archive, ArchiveResource, Base, HistoryResource, HistoryStatus } from './types.ts';

/** Its plan is made by whoever looks after its backups. */
const planMs = 2_000;

/** One look at the log of the datastore of that app. */
export async function stepHistory(
  deps: StepDeps,
  blobs: HistoryBlobs,
  appId: string,
  options: StepOptions,
): Promise<void | Again> {
  const subject = await subjectOf(deps, blobs, appId, options);
  if (subject === undefined) return undefined;
  if (subject === 'not yet') return { againInMs: planMs };
  const { now } = deps;
  const { nextMs } = subject.history.status;
  const days = historyDays(subject.plan);
  if (days === 0 && holds(subject)) return forgetAll(deps, blobs, subject, options);
  // Nothing was kept until now: what was to be skipped for long begins.
  const isSkipping = days > 0 && nextMs - now() > longestPauseMs;
  if (!isDue(nextMs, now()) && !isSkipping) return { againInMs: nextMs - now() };
  if (!subject.isWanted) {
    await rest(deps, subject, options);
    if (days > 0) await forget(deps, appId, { ...options, days });
    return { againInMs: collectEveryMs };
  }
  const status = await collect(deps, blobs, subject, { ...options, isKept: days > 0 });
  if (status === undefined) return undefined;
  if (days > 0) await forget(deps, appId, { ...options, days });
  return { againInMs: Math.max(1, status.nextMs - now()) };
}

function holds({ history, archive }: HistorySubject): boolean {
  return history.status.at !== undefined || archive.status.bases.length > 0 || archive.status.pieces.length > 0;
}

/** Nobody wants it to run: nothing is collected, and nothing is wrong. */
async function rest({ resources }: StepDeps, { history }: HistorySubject, options: StepOptions): Promise<void> {
  if (history.status.failure === undefined) return;
  const without = ({ status: { failure: _f, ...status } }: HistoryResource) => status;
  await resources.updateStatus(historyType, history.id, without, { signal: options.signal, also: guard(options) });
}

/** Its blobs go with the next collection. Turned on again it is another run. */
async function forgetAll(
  { resources }: StepDeps,
  blobs: HistoryBlobs,
  { app, plan, history: { status: before } }: HistorySubject,
  options: StepOptions,
): Promise<Again> {
  const { signal } = options;
  const nothing = { run: before.run, recent: [], archive: { bases: [], pieces: [] } };
  await writeCatalogue(blobs, app.id, nothing, { secret: plan.spec.secret, signal });
  const also = guard(options);
  await resources.updateStatus(archiveType, app.id, () => ({ bases: [], pieces: [] }), { signal, also });
  const empty = ({ status }: HistoryResource) => ({ run: status.run, nextMs: 0, recent: [] });
  await resources.updateStatus(historyType, app.id, empty, { signal, also });
  return { againInMs: 1 };
}

/** Undefined where the datastore was deleted meanwhile. */
async function collect(
  deps: StepDeps,
  blobs: HistoryBlobs,
  { app, appliance, programs, plan, history, archive }: HistorySubject,
  options: StepOptions & { isKept: boolean },
): Promise<HistoryStatus | undefined> {
  const { now, log, resources } = deps;
  const { signal } = options;
  const { failure, at: since } = history.status;
  const begunMs = now();
  const change = async (to: (before: HistoryStatus) => HistoryStatus): Promise<HistoryStatus> =>
    (await resources.updateStatus(historyType, app.id, ({ status }) => to(status), { signal, also: guard(options) }))
      .status;
  try {
    if (options.isKept && history.status.recent.length >= mostRecent) throw tooMany(history.status);
    const member = memberOf(deps, { app, appliance }, (failure?.count ?? 0) + 1);
    const collected = await collectLog(deps, blobs, programs, { member, secret: plan.spec.secret, since }, options);
    if (!options.isKept)
      return await change(({ failure: _f, ...before }) => ({ ...before, nextMs: now() + skipEveryMs }));
    if (collected.gap !== undefined) {
      log.warn({ datastore: app.spec.name, gap: collected.gap }, 'the history of a datastore has a gap');
    }
    const known = await changeBases(
      deps,
      archive,
      (base) => afterBase(base, history.status, collected, begunMs),
      options,
    );
    const next = afterCollecting(history.status, collected, now());
    const catalogued = await catalogue(
      deps,
      blobs,
      { app, plan },
      { before: history.status, next, archive: known },
      signal,
    );
    return await change((before) => ({ ...afterCollecting(before, collected, now()), ...catalogued }));
  } catch (error) {
    if (signal.aborted) throw error;
    if (hasCode(error, 'not_found') && (await resources.find(appType, app.id, { signal })) === undefined)
      return undefined;
    const count = (failure?.count ?? 0) + 1;
    log.warn({ err: error, datastore: app.spec.name, count }, 'the log of a datastore could not be collected');
    const failed = { sinceMs: failure?.sinceMs ?? now(), count, message: messageOf(error).slice(0, 1_000) };
    return change((before) => ({ ...before, failure: failed, nextMs: now() + collectRetryMs(count) }));
  }
}

/** Where there is something else to be found. What fails here is tried again with the next minute. */
async function catalogue(
  { log }: StepDeps,
  blobs: HistoryBlobs,
  { app, plan }: Pick<HistorySubject, 'app' | 'plan'>,
  { before, next, archive }: { before: HistoryStatus; next: HistoryStatus; archive: Archive },
  signal: AbortSignal,
): Promise<Pick<HistoryStatus, 'catalogued'>> {
  const catalogued = markOf(archive, next);
  if (catalogued === before.catalogued) return {};
  try {
    await writeCatalogue(blobs, app.id, { ...next, archive }, { secret: plan.spec.secret, signal });
    return { catalogued };
  } catch (error) {
    if (signal.aborted) throw error;
    log.warn({ err: error, datastore: app.spec.name }, 'the catalogue of a history could not be written');
    return {};
  }
}

/** Pure. */
export function afterCollecting(before: HistoryStatus, collected: Collected, nowMs: number): HistoryStatus {
  const { failure: _f, at, untilMs: _u, ...rest } = before;
  if (collected.gap !== undefined) {
    const ended = [...(before.ended ?? []), ...endOf(before)];
    // A run begins anew at once.
    const gaps = gapsWith(before, nowMs);
    return { ...rest, ended, gaps, gap: { atMs: nowMs, reason: collected.gap }, nextMs: nowMs };
  }
  const { system, timeline, from, to, until: untilMs, data, stored } = collected;
  // As it was the last time.
  const dataBytes = data ?? before.recent.at(-1)?.dataBytes ?? 0;
  const end = { timeline, lsn: to };
  const nextMs = stored !== undefined && to - from >= busyBytes ? nowMs : nowMs + collectEveryMs;
  const next = { ...rest, at: { system, ...end }, untilMs, nextMs };
  if (at === undefined) return { ...next, run: before.run + 1, begunMs: nowMs };
  if (stored === undefined) return next;
  return {
    ...next,
    recent: [...before.recent, { run: before.run, level: 0, from, end, untilMs, dataBytes, ...stored }],
  };
}

function tooMany({ recent, unmerged }: HistoryStatus): FlynnError {
  const why = unmerged === undefined ? '' : `, which fails: ${unmerged.message}`;
  return new FlynnError('exhausted', `${recent.length} pieces of its log wait to be merged${why}`);
}

/**
 * Pure. A copy that had ended before what was collected now is whole with it. One of what a primary wrote last and no other has is
 * not to be gone on from: undefined.
 */
export function afterBase(
  base: Base,
  { run, at }: Pick<HistoryStatus, 'run' | 'at'>,
  collected: Collected,
  begunMs: number,
): Base | undefined {
  if (collected.gap !== undefined || at === undefined || base.run !== run) return base;
  const { timeline, left, until, to } = collected;
  const isLeft = left !== undefined && base.start.timeline === at.timeline && (base.readyLsn ?? Infinity) > left;
  if (isLeft || (base.readyMs === undefined && base.start.timeline !== timeline)) return undefined;
  if (base.readyMs !== undefined || base.endedMs + settleMs > begunMs) return base;
  return { ...base, readyMs: until, readyLsn: to };
}

/** What they are then. */
async function changeBases(
  { resources }: StepDeps,
  { id, status: before }: ArchiveResource,
  change: (base: Base) => Base | undefined,
  options: StepOptions,
): Promise<Archive> {
  if (before.bases.every((base) => change(base) === base)) return before;
  const changed = ({ status }: ArchiveResource): Archive => ({
    ...status,
    bases: status.bases.flatMap((base) => change(base) ?? []),
  });
  return (await resources.updateStatus(archiveType, id, changed, { signal: options.signal, also: guard(options) }))
    .status;
}
