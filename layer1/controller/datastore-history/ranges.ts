/** To which moments can one go back, and by what? Pure. */
import { FlynnError } from '@flynn/kit/errors';
import { allPieces, logAfter, untilOf } from './pieces.ts';
import type { Known } from './pieces.ts';
import type { Archive, Base, Piece } from './types.ts';

export type Range = Readonly<{ fromMs: number; untilMs: number }>;
export type Recovery = Readonly<{ base: Base; pieces: readonly Piece[] }>;
/** A copy, and the log that follows it without a gap. */
type Chain = Range & Recovery;

const segmentBytes = 16 * 1024 ** 2;
/** Of what is put back members keep so much for those that copy it, and for the history. */
const mostSlotBytes = 2 * 1024 ** 3;

/** What follows each copy, the oldest first; what overlaps is one. */
export function rangesOf(archive: Archive, status: Known): Range[] {
  const found: Range[] = [];
  for (const { fromMs, untilMs } of chainsOf(archive, status)) {
    const last = found.at(-1);
    if (last !== undefined && fromMs <= last.untilMs) {
      found[found.length - 1] = { fromMs: last.fromMs, untilMs: Math.max(last.untilMs, untilMs) };
    } else found.push({ fromMs, untilMs });
  }
  return found;
}

/** The newest copy before that moment, and the log after it until then. Throws `invalid` where there is none. */
export function recoveryTo(atMs: number, archive: Archive, status: Known): Recovery {
  const chain = chainsOf(archive, status).findLast(({ fromMs, untilMs }) => fromMs <= atMs && atMs <= untilMs);
  if (chain === undefined) throw notThere(atMs, rangesOf(archive, status));
  const { base, pieces } = chain;
  const last = pieces.findIndex(({ untilMs }) => untilMs >= atMs);
  return { base, pieces: last < 0 ? pieces : pieces.slice(0, last + 1) };
}

function chainsOf(archive: Archive, status: Known): Chain[] {
  const all = allPieces(archive, status);
  return archive.bases
    .flatMap((base): Chain[] => {
      const { readyMs, run, start, isLost: isGone } = base;
      if (readyMs === undefined || isGone) return [];
      const { after, gap } = logAfter({ run, start }, all);
      const pieces = gap < 0 ? after : after.slice(0, gap);
      const untilMs = gap < 0 ? untilOf(run, all, status) : pieces.at(-1)?.untilMs;
      return untilMs === undefined || untilMs < readyMs ? [] : [{ base, pieces, fromMs: readyMs, untilMs }];
    })
    .toSorted((a, b) => a.fromMs - b.fromMs);
}

/**
 * As much as it takes beside what there is: the data, as they were largest, and once more as they are dumped into the restore; the
 * log to get there, and that of the restore.
 */
export function roomOf({ base, pieces }: Recovery): number {
  const data = Math.max(base.dataBytes, ...pieces.map(({ dataBytes }) => dataBytes));
  const timelines = new Set(pieces.map(({ end }) => end.timeline)).size;
  const log = pieces.reduce((sum, { from, end }) => sum + Math.max(0, end.lsn - from), 0);
  return 2 * data + log + (timelines + 1) * segmentBytes + Math.min(mostSlotBytes, data);
}

export function rangeText(ranges: readonly Range[]): string {
  return ranges.map(({ fromMs, untilMs }) => `${iso(fromMs)} to ${iso(untilMs)}`).join(', ');
}

function notThere(atMs: number, ranges: readonly Range[]): FlynnError {
  const last = ranges.at(-1);
  if (last === undefined) {
    return new FlynnError(
      'invalid',
      `there is no history yet: it begins with a first copy of all that is in the database`,
    );
  }
  const later = atMs > last.untilMs ? '; what was written since is kept within a minute or two' : '';
  return new FlynnError('invalid', `${iso(atMs)} is not kept: one can go back to ${rangeText(ranges)}${later}`);
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}
