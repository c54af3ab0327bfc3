/** Which pieces of a log are made one, and what of a history is not needed any more? Pure. */
import type { Archive, HistoryStatus, Piece } from './types.ts';

/** Pieces of a minute are made one of a quarter of an hour, and those one of some four hours: a month's history is a short list. */
export const mergedAtOnce = 16;
const mostLevel = 2;
/** Larger ones stay apart: each byte is sent again with each merge. */
const mostBytes = 4 * 1024 ** 3;

type Place = Piece['end'];

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
  { recent, run: now }: Pick<HistoryStatus, 'recent' | 'run'>,
): Piece[] | undefined {
  const fresh = unmerged(archive, recent);
  const [first] = fresh;
  if (first !== undefined) {
    const own = fresh.filter(({ run }) => run === first.run);
    // Of a run that is over nothing more comes.
    if (own.length >= mergedAtOnce || first.run !== now) return fitting(own.slice(0, mergedAtOnce));
  }
  const last = archive.pieces.at(-1);
  if (last === undefined || last.level >= mostLevel) return undefined;
  const before = archive.pieces.findLastIndex(({ run, level }) => run !== last.run || level !== last.level);
  const same = archive.pieces.slice(before + 1);
  if (same.length < mergedAtOnce) return undefined;
  const due = fitting(same.slice(0, mergedAtOnce));
  return due.length > 1 ? due : undefined;
}

function fitting(pieces: readonly Piece[]): Piece[] {
  let bytes = 0;
  const beyond = pieces.findIndex(({ blobBytes }) => (bytes += blobBytes) > mostBytes);
  return pieces.slice(0, beyond < 0 ? pieces.length : Math.max(1, beyond));
}

/** The archive with one piece in the place of those. */
export function withMerged(archive: Archive, merged: readonly Piece[], one: Piece): Archive {
  const first = archive.pieces.findIndex(({ digest }) => digest === merged[0]?.digest);
  const pieces = first < 0 ? [...archive.pieces, one] : archive.pieces.toSpliced(first, merged.length, one);
  return { ...archive, pieces };
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
  return { run, from, level, end: last.end, untilMs: last.untilMs, ...stored };
}

/**
 * What is kept so that each moment since `sinceMs` can be gone back to: of each run the newest copy that is as old, those after it,
 * and the log from there on. `open`: where a copy that is under way begins.
 */
export function kept(
  archive: Archive,
  { recent, run: now, base: open }: Pick<HistoryStatus, 'recent' | 'run' | 'base'>,
  sinceMs: number,
): { archive: Archive; recent: Piece[] } {
  const all = allPieces(archive, { recent });
  const lastOf = (run: number): number => all.findLast((one) => one.run === run)?.untilMs ?? 0;
  const isOver = (run: number): boolean => run !== now && lastOf(run) < sinceMs;
  const bases = archive.bases.filter((base) => {
    const later = archive.bases.some(
      ({ run, readyMs, startedMs }) =>
        run === base.run && startedMs > base.startedMs && readyMs !== undefined && readyMs <= sinceMs,
    );
    return !isOver(base.run) && !later && (base.run === now || base.readyMs !== undefined);
  });
  const isNeeded = ({ run, end }: Piece): boolean => {
    const starts = bases.filter((base) => base.run === run).map(({ start }) => start);
    if (open?.run === run && run === now) starts.push(open.start);
    return starts.some((start) => isAfter(end, start));
  };
  return { archive: { bases, pieces: archive.pieces.filter(isNeeded) }, recent: recent.filter(isNeeded) };
}

export function blobsOfArchive({ bases, pieces }: Archive): string[] {
  return [...bases, ...pieces].map(({ digest }) => digest);
}
