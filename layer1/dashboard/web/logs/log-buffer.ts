/** What of a log is on the page: the newest lines, and how many came while somebody read older ones. Pure. */
import { type Blocks, grown, newest } from '../parts/blocks.ts';
import type { LogItem } from './log-following.ts';

export type LogBuffer = Readonly<{
  kept: Blocks<LogItem>;
  /** Since somebody scrolled up. */
  unread: number;
  isFollowing: boolean;
}>;

/** So many are shown, and a few more; while somebody reads older ones nothing goes, up to the second number. */
export const shownLines = 2_000;
export const mostLines = 10_000;

export const emptyLog: LogBuffer = { kept: [], unread: 0, isFollowing: true };

export function added(buffer: LogBuffer, items: readonly LogItem[]): LogBuffer {
  const { isFollowing } = buffer;
  return {
    isFollowing,
    unread: isFollowing ? 0 : buffer.unread + items.length,
    kept: newest(grown(buffer.kept, items), isFollowing ? shownLines : mostLines),
  };
}

/** Somebody scrolled up to read, or back to the end. */
export function followed(buffer: LogBuffer, isFollowing: boolean): LogBuffer {
  if (buffer.isFollowing === isFollowing) return buffer;
  return { ...buffer, isFollowing, unread: 0, kept: isFollowing ? newest(buffer.kept, shownLines) : buffer.kept };
}
