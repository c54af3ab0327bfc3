/** What of a log is on the page: the newest lines, and how many came while somebody read older ones. Pure. */
import type { LogItem } from './log-following.ts';

export type Kept = Readonly<{ at: number; item: LogItem }>;

export type LogBuffer = Readonly<{
  kept: readonly Kept[];
  /** Of the next one, so that each keeps its place on the page. */
  next: number;
  /** Since somebody scrolled up. */
  unread: number;
  isFollowing: boolean;
}>;

/** So many are shown; while somebody reads older ones nothing goes, up to the second number. */
export const shownLines = 2_000;
const mostLines = 10_000;

export const emptyLog: LogBuffer = { kept: [], next: 0, unread: 0, isFollowing: true };

export function added(buffer: LogBuffer, items: readonly LogItem[]): LogBuffer {
  const { isFollowing, next } = buffer;
  const kept = [...buffer.kept, ...items.map((item, index) => ({ at: next + index, item }))];
  return {
    isFollowing,
    next: next + items.length,
    unread: isFollowing ? 0 : buffer.unread + items.length,
    kept: kept.slice(-(isFollowing ? shownLines : mostLines)),
  };
}

/** Somebody scrolled up to read, or back to the end. */
export function followed(buffer: LogBuffer, isFollowing: boolean): LogBuffer {
  if (buffer.isFollowing === isFollowing) return buffer;
  return { ...buffer, isFollowing, unread: 0, kept: isFollowing ? buffer.kept.slice(-shownLines) : buffer.kept };
}
