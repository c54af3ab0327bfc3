/** For tests: pieces and copies of a history, and what is kept of them. */
import type { Archive, Base, HistoryStatus, Piece } from './types.ts';

export const minuteMs = 60_000;
export const startMs = Date.UTC(2027, 0, 1);

/** The piece of that minute, which is as long as it is the how manyth. */
export function piece(minute: number, more: Partial<Piece> = {}): Piece {
  return {
    run: 1,
    level: 0,
    from: minute * 100,
    end: { timeline: 1, lsn: (minute + 1) * 100 },
    untilMs: startMs + (minute + 1) * minuteMs,
    dataBytes: 30_000_000,
    bytes: 100,
    blobBytes: 150,
    digest: `sha256:${minute}`,
    ...more,
  };
}

/** Begun with that minute, and of use with its end. */
export function copy(minute: number, more: Partial<Base> = {}): Base {
  return {
    run: 1,
    start: { timeline: 1, lsn: minute * 100 },
    startedMs: startMs + minute * minuteMs,
    endedMs: startMs + minute * minuteMs,
    readyMs: startMs + (minute + 1) * minuteMs,
    dataBytes: 30_000_000,
    bytes: 4_000,
    blobBytes: 4_100,
    digest: `sha256:copy-${minute}`,
    ...more,
  };
}

export function pieces(from: number, to: number, more: Partial<Piece> = {}): Piece[] {
  return Array.from({ length: to - from }, (_, at) => piece(from + at, more));
}

export function archive(bases: Base[], kept: Piece[] = []): Archive {
  return { bases, pieces: kept };
}

export function status(recent: Piece[] = [], more: Partial<HistoryStatus> = {}): HistoryStatus {
  return { run: 1, nextMs: 0, recent, at: { system: 'a', timeline: 1, lsn: 0 }, ...more };
}
