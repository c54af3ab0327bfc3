/** A datastore's history for people. Pure. */
import type { DatastoreHistory } from './model.ts';
import { allPieces } from './pieces.ts';
import { rangesOf } from './ranges.ts';
import type { Archive, HistoryStatus } from './types.ts';

export function viewHistory(
  { datastore, days }: { datastore: string; days: number },
  archive: Archive,
  status: HistoryStatus,
): DatastoreHistory {
  const { base, gap } = status;
  // Of what is not kept nothing is missing.
  const failure = days === 0 ? undefined : status.failure;
  const copiedMs = archive.bases.at(-1)?.startedMs;
  const stored = [...archive.bases, ...allPieces(archive, status)];
  const isFailing = base?.error !== undefined && base.attempt > 1 && base.failingSinceMs !== undefined;
  return {
    datastore,
    days,
    ranges: rangesOf(archive, status).map(({ fromMs, untilMs }) => ({ from: iso(fromMs), until: iso(untilMs) })),
    bytes: stored.reduce((sum, { blobBytes }) => sum + blobBytes, 0),
    ...(copiedMs === undefined ? {} : { copiedAt: iso(copiedMs) }),
    ...(failure === undefined ? {} : { failure: { since: iso(failure.sinceMs), message: failure.message } }),
    ...(isFailing ? { copyFailure: { since: iso(base.failingSinceMs ?? 0), message: base.error ?? '' } } : {}),
    ...(gap === undefined ? {} : { gap: { at: iso(gap.atMs), reason: gap.reason } }),
  };
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}
