/** To which moments can one go back, and by what? Pure. */
import { FlynnError } from '@flynn/kit/errors';
import { allPieces, isAfter } from './pieces.ts';
import type { Archive, Base, HistoryStatus, Piece } from './types.ts';

export type Range = Readonly<{ fromMs: number; untilMs: number }>;
export type Recovery = Readonly<{ base: Base; pieces: readonly Piece[] }>;

const segmentBytes = 16 * 1024 ** 2;

type Known = Pick<HistoryStatus, 'recent' | 'run' | 'untilMs'>;

/** Of each run with a copy, the oldest first. */
export function rangesOf(archive: Archive, status: Known): Range[] {
  const pieces = allPieces(archive, status);
  const runs = Map.groupBy(archive.bases.filter(isReady), ({ run }) => run);
  return [...runs]
    .toSorted(([a], [b]) => a - b)
    .flatMap(([run, bases]) => {
      const fromMs = Math.min(...bases.map(({ readyMs = Infinity }) => readyMs));
      const untilMs = untilOf(run, pieces, status);
      return untilMs === undefined || untilMs < fromMs ? [] : [{ fromMs, untilMs }];
    });
}

/** The newest copy before that moment, and the log after it until then. Throws `invalid` where there is none. */
export function recoveryTo(atMs: number, archive: Archive, status: Known): Recovery {
  const all = allPieces(archive, status);
  const base = archive.bases
    .filter(({ run, readyMs }) => {
      const untilMs = untilOf(run, all, status);
      return readyMs !== undefined && readyMs <= atMs && untilMs !== undefined && atMs <= untilMs;
    })
    .toSorted((a, b) => (a.readyMs ?? 0) - (b.readyMs ?? 0))
    .at(-1);
  if (base === undefined) throw notThere(atMs, rangesOf(archive, status));
  const after = all.filter(({ run, end }) => run === base.run && isAfter(end, base.start));
  const last = after.findIndex(({ untilMs }) => untilMs >= atMs);
  const pieces = last < 0 ? after : after.slice(0, last + 1);
  if (!isWhole(base, pieces))
    throw new FlynnError('internal', 'the history is not whole: a piece of its log is missing');
  return { base, pieces };
}

/** As much as it takes beside what there is: the copy, the log, and once more what is read from them. */
export function roomOf({ base, pieces }: Recovery): number {
  const log = pieces.reduce((sum, { from, end }) => sum + Math.max(0, end.lsn - from) + segmentBytes, 0);
  return 2 * base.dataBytes + log;
}

export function rangeText(ranges: readonly Range[]): string {
  return ranges.map(({ fromMs, untilMs }) => `${iso(fromMs)} to ${iso(untilMs)}`).join(', ');
}

function untilOf(run: number, pieces: readonly Piece[], status: Known): number | undefined {
  return run === status.run && status.untilMs !== undefined
    ? status.untilMs
    : pieces.findLast((one) => one.run === run)?.untilMs;
}

function isReady({ readyMs }: Base): boolean {
  return readyMs !== undefined;
}

function isWhole({ start }: Base, pieces: readonly Piece[]): boolean {
  return pieces.every(({ from }, at) => {
    const before = pieces[at - 1];
    return before === undefined ? from <= start.lsn : from === before.end.lsn;
  });
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
