/**
 * Makes backups as the schedule has them, and tries again.
 *
 * INVARIANTS. One at a time: the worker that leads makes them, and what it writes carries its term's compare. That one
 * begins is written down before it begins, with when it is tried again: a worker that dies leaves nothing for ever.
 */
import type { BlobClient } from '@flynn/blobstore/client';
import { messageOf } from '@flynn/kit/errors';
import { removePiece } from '@flynn/resource/piece';
import type { Compare } from '@flynn/store/store';
import { freshBackups } from '../datastore-backups/asking.ts';
import type { Deps } from '../deps.ts';
import { packArchive } from './archive.ts';
import type { Bytes } from './archive.ts';
import { encrypted } from './encryption.ts';
import { clusterIdOf, prepareBackup } from './export.ts';
import { targetText } from './model.ts';
import { beginningOf, fileOf, maxAttempts, nextBackup, retryAt, stampOf, superfluous } from './plan.ts';
import type { NamedCluster } from './plan.ts';
import { targetAt } from './place.ts';
import { isRestoring } from './restore-state.ts';
import { backupScheduleType, backupType, scheduleId } from './resources.ts';
import type { BackupResource, BackupSchedule } from './resources.ts';

/** What is due in the middle of a restore is looked at again. */
const restoringMs = 10_000;
/** Beside those whose files are kept. */
const keptRecords = 20;

type BackupDeps = Pick<Deps, 'store' | 'resources' | 'hosts' | 'settings' | 'runnerKey' | 'log' | 'now'>;
export type BackupBlobs = Pick<BlobClient, 'stat' | 'get'>;
type Options = { signal: AbortSignal; epoch?: Compare };

/** One look. Answers how long nothing is to be done, in milliseconds. */
export async function stepBackups(deps: BackupDeps, blobs: BackupBlobs, options: Options): Promise<number> {
  const { resources, now } = deps;
  const { signal } = options;
  const schedule = await resources.find(backupScheduleType, scheduleId, { signal });
  if (schedule === undefined) return Infinity;
  const step = nextBackup(schedule, now());
  if (step.do === 'wait') return step.untilMs === undefined ? Infinity : step.untilMs - now();
  // What there is of the cluster is no whole one. It is made once that is through.
  if (await isRestoring(deps.store, { signal })) return restoringMs;
  const { attempt, retryMs } = step;
  const tickMs = attempt === 1 ? await laterThanAll(resources, step.tickMs, signal) : step.tickMs;
  const { isWanted: _, ...status } = schedule.status;
  const also = guard(options);
  const begun = await resources.updateStatus(
    backupScheduleType,
    scheduleId,
    () => ({ ...status, handledMs: now(), pending: { tickMs, attempt, nextMs: retryMs } }),
    { signal, expectRevision: schedule.revision, also },
  );
  // One at a time: what another look began and did not end is of a worker that died.
  const isOther = ({ id, status: { state } }: BackupResource): boolean =>
    id !== stampOf(tickMs) && (state === 'running' || state === 'retrying');
  await giveUp(deps, isOther, options);
  await makeOne(deps, blobs, begun, { ...options, tickMs, attempt });
  return 0;
}

/** Names are in the order in which backups were made, to the second, also where the clock is not. */
async function laterThanAll(resources: Deps['resources'], tickMs: number, signal: AbortSignal): Promise<number> {
  const records = await resources.list(backupType, { signal });
  return Math.max(tickMs, ...records.map(({ spec }) => spec.tickMs + 1_000));
}

/** Of those that nobody tries again: another is begun in their place, or the schedule is another one, or none. */
export async function giveUp(
  { resources, now }: Pick<BackupDeps, 'resources' | 'now'>,
  isOver: (one: BackupResource) => boolean,
  options: Options,
): Promise<void> {
  const { signal } = options;
  for (const { id } of await resources.list(backupType, { signal, where: isOver })) {
    const end = (one: BackupResource): BackupResource['status'] => {
      if (!isOver(one)) return one.status;
      const { error = 'whoever made it died', endedAt = iso(now()) } = one.status;
      return { ...one.status, state: 'failed', endedAt, error };
    };
    await resources.updateStatus(backupType, id, end, { signal, also: guard(options) });
  }
}

async function makeOne(
  deps: BackupDeps,
  blobs: BackupBlobs,
  schedule: BackupSchedule,
  options: Options & { tickMs: number; attempt: number },
): Promise<void> {
  const { now, log } = deps;
  const { signal, tickMs, attempt } = options;
  const { to } = schedule.spec;
  const file = fileOf(clusterOf(deps), tickMs);
  const startedAt = iso(now());
  await record(deps, options, { file, to: targetText(to) }, { state: 'running', attempt, startedAt });
  try {
    await clear(deps, schedule, signal);
    const made = await put(deps, blobs, schedule, { file, signal });
    const endedAt = iso(now());
    await record(
      deps,
      options,
      { file, to: targetText(to) },
      { state: 'complete', attempt, startedAt, endedAt, ...made },
    );
    await settle(deps, options, ({ pending: _p, failure: _f, ...status }) => ({
      ...status,
      lastSuccess: { at: endedAt, file, sizeBytes: made.sizeBytes },
    }));
    log.info({ file, to: targetText(to), sizeBytes: made.sizeBytes }, 'the cluster was backed up');
  } catch (error) {
    if (signal.aborted) throw error;
    const isLast = attempt >= maxAttempts;
    const endedAt = iso(now());
    const failed = { attempt, startedAt, endedAt, error: messageOf(error).slice(0, 1_000) };
    log.error({ err: error, file, to: targetText(to), attempt, isLast }, 'the cluster could not be backed up');
    const settled = await settle(deps, options, ({ pending, failure, ...status }) => ({
      ...status,
      ...(isLast || pending === undefined ? {} : { pending: { ...pending, nextMs: retryAt(attempt, now()) } }),
      failure: { since: failure?.since ?? endedAt, count: (failure?.count ?? 0) + 1, message: failed.error },
    }));
    // Of a schedule that was changed or taken away meanwhile none is tried again.
    const state = settled?.status.pending === undefined ? 'failed' : 'retrying';
    await record(deps, options, { file, to: targetText(to) }, { state, ...failed });
    return;
  }
  await forgetOld(deps, schedule, { ...options, made: file });
}

async function put(
  deps: BackupDeps,
  blobs: BackupBlobs,
  { spec }: BackupSchedule,
  { file, signal }: { file: string; signal: AbortSignal },
): Promise<{ sizeBytes: number; sha256: string }> {
  const { store, settings, hosts, now } = deps;
  const source = { store, blobs, settings, clusterId: clusterIdOf(deps), now };
  await freshBackups(deps, { signal });
  const { manifest, open } = await prepareBackup(source, { signal });
  const plain = packArchive(manifest, open);
  const body: Bytes = spec.secret === undefined ? plain : encrypted(plain, spec.secret);
  try {
    return await targetAt(hosts, spec.to).put(file, body, signal);
  } finally {
    // A place that cannot be reached has not begun to read, and a blob is being fetched for it.
    plain.destroy();
  }
}

/** What earlier ones of this cluster left, whose worker was killed. A place that does not let us fails no backup. */
async function clear(deps: BackupDeps, { spec }: BackupSchedule, signal: AbortSignal): Promise<void> {
  try {
    await targetAt(deps.hosts, spec.to).clear(beginningOf(clusterOf(deps)), signal);
  } catch (error) {
    if (signal.aborted) throw error;
    deps.log.warn({ err: error, to: targetText(spec.to) }, 'what is left of earlier backups could not be removed');
  }
}

/** What is beyond the newest so many. That it cannot be removed now fails no backup: the next one tries again. */
async function forgetOld(
  deps: BackupDeps,
  { spec }: BackupSchedule,
  options: Options & { made: string },
): Promise<void> {
  const { signal, made } = options;
  try {
    const target = targetAt(deps.hosts, spec.to);
    const records = await deps.resources.list(backupType, { signal });
    const recorded = new Set(records.map((one) => one.spec.file));
    const cluster = clusterOf(deps);
    const names = await target.list(beginningOf(cluster), signal);
    for (const { spec: former } of records.filter(({ spec }) => !spec.file.startsWith(beginningOf(cluster)))) {
      names.push(...(await target.list(former.file, signal)));
    }
    for (const name of superfluous(names, { cluster, keep: spec.keep, made, recorded })) {
      await target.remove(name, signal);
      deps.log.info({ file: name, to: targetText(spec.to) }, 'an old backup was removed');
    }
    const old = records.toSorted((a, b) => b.spec.tickMs - a.spec.tickMs).slice(Math.max(spec.keep, keptRecords));
    for (const one of old) await deps.resources.commit([removePiece(backupType, one), guard(options)()], { signal });
  } catch (error) {
    if (signal.aborted) throw error;
    deps.log.warn({ err: error }, 'old backups could not be removed');
  }
}

async function record(
  deps: BackupDeps,
  options: Options & { tickMs: number },
  spec: Pick<BackupResource['spec'], 'file' | 'to'>,
  status: BackupResource['status'],
): Promise<void> {
  const { resources } = deps;
  const { signal, tickMs } = options;
  const id = stampOf(tickMs);
  const also = guard(options);
  if ((await resources.find(backupType, id, { signal })) === undefined) {
    await resources.create(backupType, { id, spec: { ...spec, tickMs }, status }, { signal, also });
  } else await resources.updateStatus(backupType, id, () => status, { signal, also });
}

/** On what it is then: somebody may want another meanwhile, or have changed the schedule. */
async function settle(
  { resources }: BackupDeps,
  options: Options,
  change: (status: BackupSchedule['status']) => BackupSchedule['status'],
): Promise<BackupSchedule | undefined> {
  const { signal } = options;
  const known = await resources.find(backupScheduleType, scheduleId, { signal });
  if (known === undefined) return undefined;
  return resources.updateStatus(backupScheduleType, scheduleId, ({ status }) => change(status), {
    signal,
    also: guard(options),
  });
}

export function clusterOf(deps: Pick<Deps, 'settings' | 'runnerKey'>): NamedCluster {
  return { name: deps.settings.name, id: clusterIdOf(deps) };
}

function guard({ epoch }: Options): () => { compare: Compare[] } {
  return () => ({ compare: epoch === undefined ? [] : [epoch] });
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}
