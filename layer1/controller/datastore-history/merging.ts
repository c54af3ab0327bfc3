/**
 * Makes few pieces of a datastore's log of many, beside the collecting of it (steps.ts), which does not wait for it.
 *
 * INVARIANTS. A piece is in the archive before it leaves the newest. A piece whose blob is gone, or damaged, keeps none after it
 * from being merged: it is missing from then on, and given up once that is so for long (looking.ts).
 */
import { messageOf } from '@flynn/kit/errors';
import type { Again } from '@flynn/resource/reconciler';
import { guard } from '../datastore-backups/subject.ts';
import type { StepDeps, StepOptions } from '../datastore-backups/subject.ts';
import type { BackupPlan } from '../datastore-backups/types.ts';
import type { HistoryBlobs } from './catalogue.ts';
import { LostBlob, mergeStored } from './collecting.ts';
import { withUnread } from './missing.ts';
import { dueMerge, mergedPiece, unmerged, withMerged } from './pieces.ts';
import { recordsOf } from './subject.ts';
import { archiveType, historyType } from './types.ts';
import type { ArchiveResource, HistoryResource, HistoryStatus, Missing, Piece } from './types.ts';

const retryMs = 60_000;

/** One look at the pieces of the datastore of that app. */
export async function stepMerge(
  deps: StepDeps,
  blobs: HistoryBlobs,
  appId: string,
  options: StepOptions,
): Promise<void | Again> {
  const { resources, log, now } = deps;
  const { signal } = options;
  const records = await recordsOf(resources, appId, signal);
  if (records === undefined) return undefined;
  const { plan, history, archive } = records;
  const due = dueMerge(archive.status, history.status);
  if (due === undefined) return undefined;
  try {
    await merge(deps, blobs, { plan, due }, options);
    return { againInMs: 1 };
  } catch (error) {
    if (signal.aborted) throw error;
    if ((await resources.find(historyType, appId, { signal })) === undefined) return undefined;
    log.warn({ err: error, datastore: plan.spec.datastore }, 'the log of a datastore could not be merged');
    if (error instanceof LostBlob) {
      const unread = { digest: error.digest, isDamaged: await isThere(blobs, error.digest, signal) };
      await changeHistory(deps, appId, (status) => unreadOne(status, unread, now()), options);
      return { againInMs: 1 };
    }
    await changeHistory(deps, appId, (status) => failed(status, error, now()), options);
    return { againInMs: retryMs };
  }
}

async function merge(
  deps: StepDeps,
  blobs: HistoryBlobs,
  { plan: { id, spec }, due }: { plan: BackupPlan; due: readonly Piece[] },
  options: StepOptions,
): Promise<void> {
  const [first] = due;
  const isOne = due.length === 1 && first !== undefined;
  const { digest, blobBytes, bytes } = isOne ? first : await mergeStored(blobs, due, spec, options);
  const one = mergedPiece(due, { digest, blobBytes, bytes });
  if (one === undefined) return;
  const change = ({ status }: ArchiveResource) => withMerged(status, due, one);
  const { signal } = options;
  const merged = await deps.resources.updateStatus(archiveType, id, change, { signal, also: guard(options) });
  await changeHistory(
    deps,
    id,
    ({ unmerged: _u, ...own }) => ({ ...own, recent: unmerged(merged.status, own.recent) }),
    options,
  );
}

/** Each failure is written once: that wakes this again. */
function failed(status: HistoryStatus, error: unknown, nowMs: number): HistoryStatus {
  if (status.unmerged !== undefined) return status;
  return { ...status, unmerged: { sinceMs: nowMs, message: messageOf(error).slice(0, 1_000) } };
}

/** All are asked after then: several may have gone together. */
function unreadOne(
  { unmerged: _u, ...status }: HistoryStatus,
  unread: Pick<Missing, 'digest' | 'isDamaged'>,
  nowMs: number,
): HistoryStatus {
  return { ...status, looked: withUnread(status.looked, unread, nowMs) };
}

async function isThere(blobs: HistoryBlobs, digest: string, signal: AbortSignal): Promise<boolean> {
  try {
    await blobs.stat(digest, { signal });
    return true;
  } catch {
    signal.throwIfAborted();
    return false;
  }
}

async function changeHistory(
  { resources }: StepDeps,
  id: string,
  change: (status: HistoryStatus) => HistoryStatus,
  options: StepOptions,
): Promise<void> {
  const update = ({ status }: HistoryResource) => change(status);
  await resources.updateStatus(historyType, id, update, { signal: options.signal, also: guard(options) });
}
