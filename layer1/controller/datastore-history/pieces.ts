/** Which pieces of a log are made one, and what of a history is not needed any more? Pure. */
import type { Archive, Base, HistoryStatus, Piece } from './types.ts';

/** Pieces of a minute are made one of a quarter of an hour, and those one of some four hours: a month's history is a short list. */
export const mergedAtOnce = 16;
const mostLevel = 2;
/** Larger ones stay apart: each byte is sent again with each merge. */
const mostBytes = 4 * 1024 ** 3;

type Place = Piece['end'];
const dayMs = 24 * 3_600_000;
/** What is kept may be so much behind: it was not collected for a while. */
const lagMs = 3_600_000;
export type Known = Pick<HistoryStatus, 'recent' | 'run' | 'untilMs' | 'ended'>;
type Kept = Readonly<{ archive: Archive; recent: Piece[]; ended: NonNullable<HistoryStatus['ended']> }>;

export function isAfter(a: Place, b: Place): boolean {
  return a.timeline > b.timeline || (a.timeline === b.timeline && a.lsn > b.lsn);
}

/** All there are, in order. One that was merged, and is among the newest still, is there once. */
export function allPieces(archive: Archive, { recent }: Pick<HistoryStatus, 'recent'>): Piece[] {
  return [...archive.pieces, ...unmerged(archive, recent)];
}

/** Of the newest those that no piece of the archive has in it. */
export function unmerged(archive: Archive, recent: readonly Piece[]): Piece[] {
  const last = archive.pieces.at(-1);
  return recent.filter(
    ({ run, end }) => last === undefined || run > last.run || (run === last.run && isAfter(end, last.end)),
  );
}

/** What is made one: pieces that follow each other, the oldest first. One piece alone goes to the archive as it is. */
export function dueMerge(
  archive: Archive,
  { recent, run: now, looked }: Pick<HistoryStatus, 'recent' | 'run' | 'looked'>,
): Piece[] | undefined {
  const missing = new Set(looked?.missing.map(({ digest }) => digest));
  // What cannot be read keeps nothing after it from being merged.
  const isApart = ({ isLost, digest }: Piece): boolean => isLost === true || missing.has(digest);
  const fresh = unmerged(archive, recent);
  const [first] = fresh;
  if (first !== undefined) {
    const other = fresh.findIndex((one, at) => at > 0 && (one.run !== first.run || isApart(one) || isApart(first)));
    const own = other < 0 ? fresh : fresh.slice(0, other);
    // Of a run that is over nothing more comes, nor before one that is apart.
    if (own.length >= mergedAtOnce || other > 0 || first.run !== now) return fitting(own.slice(0, mergedAtOnce));
  }
  const last = archive.pieces.at(-1);
  if (last === undefined || last.level >= mostLevel) return undefined;
  const before = archive.pieces.findLastIndex(
    (one) => one.run !== last.run || one.level !== last.level || isApart(one),
  );
  const same = archive.pieces.slice(before + 1);
  if (same.length < mergedAtOnce) return undefined;
  return fitting(same.slice(0, mergedAtOnce));
}

function fitting(pieces: readonly Piece[]): Piece[] {
  let bytes = 0;
  const beyond = pieces.findIndex(({ blobBytes }) => (bytes += blobBytes) > mostBytes);
  return pieces.slice(0, beyond < 0 ? pieces.length : Math.max(1, beyond));
}

/** The archive with one piece in the place of those. Unchanged if some of them were forgotten meanwhile. */
export function withMerged(archive: Archive, merged: readonly Piece[], one: Piece): Archive {
  const first = archive.pieces.findIndex(({ digest }) => digest === merged[0]?.digest);
  const isThere = merged.every(({ digest }, at) => archive.pieces[first + at]?.digest === digest);
  if (first >= 0 && isThere) return { ...archive, pieces: archive.pieces.toSpliced(first, merged.length, one) };
  return unmerged(archive, merged).length < merged.length ? archive : { ...archive, pieces: [...archive.pieces, one] };
}

/** What they are as one; `stored`: its blob. */
export function mergedPiece(
  pieces: readonly Piece[],
  stored: Pick<Piece, 'digest' | 'blobBytes' | 'bytes'>,
): Piece | undefined {
  const [first, last] = [pieces[0], pieces.at(-1)];
  if (first === undefined || last === undefined) return undefined;
  // What is too large to be made one with others is not looked at again.
  const level = pieces.length === 1 ? mostLevel : Math.min(mostLevel, Math.max(...pieces.map((one) => one.level)) + 1);
  const { run, from } = first;
  const dataBytes = Math.max(...pieces.map((one) => one.dataBytes));
  const lost = { ...(first.isLost && { isLost: true }), ...(first.isDamaged && { isDamaged: true }) };
  return { run, from, level, end: last.end, untilMs: last.untilMs, dataBytes, ...lost, ...stored };
}

/**
 * Since when each moment is kept, of so many days. It is not later than the datastore's own clock has it: ours may be ahead, and
 * what is forgotten by it is gone.
 */
export function keptSince(archive: Archive, status: Known, { days, nowMs }: { days: number; nowMs: number }): number {
  const { untilMs = status.ended?.at(-1)?.untilMs ?? allPieces(archive, status).at(-1)?.untilMs ?? nowMs } = status;
  return Math.min(nowMs, untilMs + lagMs) - days * dayMs;
}

/**
 * What is kept so that each moment since `sinceMs` can be gone back to: of each run the newest copy that is as old, those after it,
 * and the log from there on. Of short runs that are over not all are (crowdedRuns). `open`: where a copy that is under way begins.
 */
export function kept(archive: Archive, status: Known & Pick<HistoryStatus, 'base'>, sinceMs: number): Kept {
  const { recent, run: now, base: open, ended = [] } = status;
  const all = allPieces(archive, { recent });
  const crowded = crowdedRuns(archive, all, status);
  const isOver = (run: number): boolean =>
    run !== now && (crowded.has(run) || (untilOf(run, all, status) ?? 0) < sinceMs);
  const bases = archive.bases.filter((base) => {
    const later = archive.bases.some(
      ({ run, readyMs, startedMs, isLost }) =>
        run === base.run && startedMs > base.startedMs && readyMs !== undefined && readyMs <= sinceMs && !isLost,
    );
    return !isOver(base.run) && !later && (base.run === now || base.readyMs !== undefined);
  });
  const isNeeded = ({ run, end }: Piece): boolean => {
    const starts = bases.filter((base) => base.run === run).map(({ start }) => start);
    if (open?.run === run && run === now) starts.push(open.start);
    return starts.some((start) => isAfter(end, start));
  };
  const runs = new Set(bases.map(({ run }) => run));
  return {
    archive: { bases, pieces: archive.pieces.filter(isNeeded) },
    recent: recent.filter(isNeeded),
    ended: ended.filter(({ run }) => runs.has(run)),
  };
}

/**
 * Each run has a copy of its own. Of those that are over, and were shorter than a day, the longest of each day stays, and the
 * newest: gaps in quick succession are not a copy each.
 */
function crowdedRuns({ bases }: Archive, all: readonly Piece[], status: Known): Set<number> {
  const over = [...new Set(bases.map(({ run }) => run))].filter((run) => run !== status.run);
  const short = over.flatMap((run) => {
    const untilMs = untilOf(run, all, status) ?? 0;
    // Its first copy may have been forgotten by now. One that is lost may be found again.
    const ready = bases.flatMap((one) => (one.run === run ? (one.readyMs ?? []) : []));
    const sinceMs = status.ended?.find((one) => one.run === run)?.sinceMs ?? Math.min(untilMs, ...ready);
    const lastedMs = untilMs - sinceMs;
    return lastedMs < dayMs ? [{ run, lastedMs, day: Math.floor(untilMs / dayMs) }] : [];
  });
  const longest = short
    .toSorted((a, b) => b.lastedMs - a.lastedMs)
    .filter(({ day }, at, sorted) => sorted.findIndex((one) => one.day === day) === at);
  const staying = new Set([Math.max(...over), ...longest.map(({ run }) => run)]);
  return new Set(short.map(({ run }) => run).filter((run) => !staying.has(run)));
}

/** All of its run after a copy. `gap`: the first of it that is lost, or does not go on from what is before it; -1: none. */
export function logAfter(
  { run, start }: Pick<Base, 'run' | 'start'>,
  pieces: readonly Piece[],
): { after: Piece[]; gap: number } {
  const after = pieces.filter((one) => one.run === run && isAfter(one.end, start));
  const gap = after.findIndex(({ isLost, from }, at) => {
    const before = after[at - 1];
    return isLost === true || (before === undefined ? from > start.lsn : from !== before.end.lsn);
  });
  return { after, gap };
}

/** All that was committed by then is kept of that run: also where nothing was since its last piece. */
export function untilOf(run: number, pieces: readonly Piece[], status: Omit<Known, 'recent'>): number | undefined {
  const own = run === status.run ? status.untilMs : undefined;
  const ended = status.ended?.find((one) => one.run === run)?.untilMs;
  return own ?? ended ?? pieces.findLast((one) => one.run === run)?.untilMs;
}

export function blobsOfArchive({ bases, pieces }: Archive): string[] {
  return [...bases, ...pieces].map(({ digest }) => digest);
}
