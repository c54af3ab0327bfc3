/**
 * Does what is next for a datastore's history: collects its log, makes few pieces of many, forgets what is too old; and, beside
 * that, copies all there is.
 *
 * INVARIANTS. One worker does it, the one that leads: what it writes carries its term's compare. A record names a blob only once
 * all of it is stored. The database is told that its log was kept by the collection after, when that is written down: whoever
 * dies in between collects the same once more. A piece is in the archive before it leaves the newest.
 */
import { appliances } from '@flynn/appliances/appliances';
import type { Appliance, History } from '@flynn/appliances/appliance';
import { hasCode, messageOf } from '@flynn/kit/errors';
import type { Again } from '@flynn/resource/reconciler';
import type { DumpBlobs } from '../datastore-backups/making.ts';
import { guard, memberOf } from '../datastore-backups/subject.ts';
import type { StepDeps, StepOptions } from '../datastore-backups/subject.ts';
import { backupPlanType } from '../datastore-backups/types.ts';
import type { BackupPlan } from '../datastore-backups/types.ts';
import { appType, ownedBy } from '../resources.ts';
import type { AppResource } from '../resources.ts';
import { collectLog, mergeStored } from './collecting.ts';
import type { Collected } from './collecting.ts';
import { dueMerge, kept, mergedPiece, unmerged, withMerged } from './pieces.ts';
import { collectEveryMs, collectRetryMs, dayMs, defaultHistoryDays, isDue, skipEveryMs } from './plan.ts';
import { archiveType, historyType } from './types.ts';
import type { Archive, ArchiveResource, HistoryResource, HistoryStatus } from './types.ts';

/** What a step is about. */
export type HistorySubject = Readonly<{
  app: AppResource;
  appliance: Appliance;
  programs: History;
  plan: BackupPlan;
  history: HistoryResource;
  archive: ArchiveResource;
}>;

/** Its plan is made by whoever looks after its backups. */
const planMs = 2_000;
/** Newest pieces are merged by sixteen, an archive's as well: more than this is not due at once. */
const mostMerges = 4;

/** One look at the log of the datastore of that app. */
export async function stepHistory(
  deps: StepDeps,
  blobs: DumpBlobs,
  appId: string,
  options: StepOptions,
): Promise<void | Again> {
  const subject = await subjectOf(deps, appId, options);
  if (subject === undefined) return undefined;
  if (subject === 'without a plan') return { againInMs: planMs };
  const { now } = deps;
  const { nextMs } = subject.history.status;
  const days = historyDays(subject.plan);
  if (days === 0 && holds(subject)) return forgetAll(deps, subject, options);
  if (!isDue(nextMs, now())) return { againInMs: nextMs - now() };
  const status = await collect(deps, blobs, subject, { ...options, isKept: days > 0 });
  if (status === undefined) return undefined;
  if (days > 0 && status.failure === undefined) await tidy(deps, blobs, subject, { ...options, days });
  return { againInMs: Math.max(1, status.nextMs - now()) };
}

/** None where its appliance has no history, or there is nothing yet. */
export async function subjectOf(
  { resources }: StepDeps,
  appId: string,
  options: StepOptions,
): Promise<HistorySubject | 'without a plan' | undefined> {
  const { signal } = options;
  const app = await resources.find(appType, appId, { signal });
  const appliance = appliances.get(app?.spec.datastore?.appliance ?? '');
  const programs = appliance?.history;
  if (app === undefined || app.deletingSince !== undefined || app.status.releaseId === undefined) return undefined;
  if (appliance === undefined || programs === undefined) return undefined;
  const plan = await resources.find(backupPlanType, appId, { signal });
  if (plan === undefined) return 'without a plan';
  const made = { id: appId, owner: ownedBy(appId), spec: { datastore: app.spec.name } };
  const also = guard(options);
  const history =
    (await resources.find(historyType, appId, { signal })) ??
    (await resources.create(historyType, made, { signal, also }));
  const archive =
    (await resources.find(archiveType, appId, { signal })) ??
    (await resources.create(archiveType, made, { signal, also }));
  return { app, appliance, programs, plan, history, archive };
}

export function historyDays({ spec }: Pick<BackupPlan, 'spec'>): number {
  return spec.historyDays ?? defaultHistoryDays;
}

function holds({ history, archive }: HistorySubject): boolean {
  return history.status.at !== undefined || archive.status.bases.length > 0 || archive.status.pieces.length > 0;
}

/** Its blobs go with the next collection. Turned on again it is another run. */
async function forgetAll({ resources }: StepDeps, { app }: HistorySubject, options: StepOptions): Promise<Again> {
  const { signal } = options;
  const also = guard(options);
  await resources.updateStatus(archiveType, app.id, () => ({ bases: [], pieces: [] }), { signal, also });
  const empty = ({ status }: HistoryResource) => ({ run: status.run, nextMs: 0, recent: [] });
  await resources.updateStatus(historyType, app.id, empty, { signal, also });
  return { againInMs: 1 };
}

/** Undefined where the datastore was deleted meanwhile. */
async function collect(
  deps: StepDeps,
  blobs: DumpBlobs,
  { app, appliance, programs, plan, history, archive }: HistorySubject,
  options: StepOptions & { isKept: boolean },
): Promise<HistoryStatus | undefined> {
  const { now, log, resources } = deps;
  const { signal } = options;
  const { failure, at: since } = history.status;
  const change = async (to: (before: HistoryStatus) => HistoryStatus): Promise<HistoryStatus> =>
    (await resources.updateStatus(historyType, app.id, ({ status }) => to(status), { signal, also: guard(options) }))
      .status;
  try {
    const member = memberOf(deps, { app, appliance }, (failure?.count ?? 0) + 1);
    const collected = await collectLog(deps, blobs, programs, { member, secret: plan.spec.secret, since }, options);
    if (!options.isKept) return await change((before) => ({ ...before, nextMs: now() + skipEveryMs }));
    if (collected.gap !== undefined) {
      log.warn({ datastore: app.spec.name, gap: collected.gap }, 'the history of a datastore has a gap');
    } else await readyBases(deps, archive, { ...options, atMs: collected.at });
    return await change((before) => afterCollecting(before, collected, now()));
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

/** Pure. */
export function afterCollecting(before: HistoryStatus, collected: Collected, nowMs: number): HistoryStatus {
  const { failure: _f, at, untilMs: _u, ...rest } = before;
  // A run begins anew at once.
  if (collected.gap !== undefined) return { ...rest, gap: { atMs: nowMs, reason: collected.gap }, nextMs: nowMs };
  const { system, timeline, from, to, until: untilMs, stored } = collected;
  const end = { timeline, lsn: to };
  const next = { ...rest, at: { system, ...end }, untilMs, nextMs: nowMs + collectEveryMs };
  if (at === undefined) return { ...next, run: before.run + 1 };
  if (stored === undefined) return next;
  return { ...next, recent: [...before.recent, { run: before.run, level: 0, from, end, untilMs, ...stored }] };
}

/** Those that had ended before this was collected are whole with it. */
async function readyBases(
  { resources }: StepDeps,
  { id, status: { bases } }: ArchiveResource,
  { atMs, ...options }: StepOptions & { atMs: number },
): Promise<void> {
  const ended = new Set(bases.filter(({ readyMs }) => readyMs === undefined).map(({ digest }) => digest));
  if (ended.size === 0) return;
  const ready = ({ status }: ArchiveResource): Archive => ({
    ...status,
    bases: status.bases.map((base) => (ended.has(base.digest) ? { ...base, readyMs: atMs } : base)),
  });
  await resources.updateStatus(archiveType, id, ready, { signal: options.signal, also: guard(options) });
}

/** Few pieces are made of many, and what is too old goes. What fails here is tried again with the next minute. */
async function tidy(
  deps: StepDeps,
  blobs: DumpBlobs,
  { app, plan }: HistorySubject,
  { days, ...options }: StepOptions & { days: number },
): Promise<void> {
  const { resources, now, log } = deps;
  const { signal } = options;
  const also = guard(options);
  try {
    for (let merges = 0; merges < mostMerges; merges += 1) {
      const { status } = await resources.get(historyType, app.id, { signal });
      const archive = (await resources.get(archiveType, app.id, { signal })).status;
      const due = dueMerge(archive, status);
      if (due === undefined) break;
      const [first] = due;
      const stored =
        due.length === 1 && first !== undefined ? first : await mergeStored(blobs, due, plan.spec, options);
      const { digest, blobBytes, bytes } = stored;
      const one = mergedPiece(due, { digest, blobBytes, bytes });
      if (one === undefined) break;
      const merged = await resources.updateStatus(archiveType, app.id, (now_) => withMerged(now_.status, due, one), {
        signal,
        also,
      });
      const newest = ({ status: own }: HistoryResource) => ({ ...own, recent: unmerged(merged.status, own.recent) });
      await resources.updateStatus(historyType, app.id, newest, { signal, also });
    }
    const { status } = await resources.get(historyType, app.id, { signal });
    const archive = (await resources.get(archiveType, app.id, { signal })).status;
    const left = kept(archive, status, now() - days * dayMs);
    const isSame =
      left.archive.bases.length === archive.bases.length && left.archive.pieces.length === archive.pieces.length;
    const forget = (own: ArchiveResource) => kept(own.status, status, now() - days * dayMs).archive;
    if (!isSame) await resources.updateStatus(archiveType, app.id, forget, { signal, also });
    if (left.recent.length < status.recent.length) {
      const needed = new Set(left.recent.map(({ digest }) => digest));
      const newest = ({ status: own }: HistoryResource) => ({
        ...own,
        recent: own.recent.filter(({ digest }) => needed.has(digest)),
      });
      await resources.updateStatus(historyType, app.id, newest, { signal, also });
    }
  } catch (error) {
    if (signal.aborted) throw error;
    log.warn({ err: error, datastore: app.spec.name }, 'the history of a datastore could not be tidied');
  }
}
