/** One app's lines for whoever asks: what is kept, then what comes. */
import type { AppLog } from './app-log.ts';
import { joined, linesOf, matcherOf, pick } from './filter.ts';
import type { Filter } from './filter.ts';
import { linesWere, noticeLine } from './record.ts';
import type { Position } from './segments.ts';

export type Reading = Readonly<{
  filter: Filter;
  /** At most so many of the newest that fit; all of them unless given. */
  lines?: number | undefined;
  follow: boolean;
  signal: AbortSignal;
  now: () => number;
  /** A sign of life as often as this, for proxies that close what is silent. */
  beatMs: number;
}>;

/** A clock of a host may be ahead of the one here by so much. */
const clockSlackMs = 10 * 60_000;
const linesAtOnce = 500;
const beat = Buffer.from('\n');

/**
 * Pieces of ndjson, whole lines each; ends after what is kept, or, following, when the signal aborts or the app is
 * deleted. Memory: one block of the file, and one window while following.
 */
export async function* readLines(log: AppLog, reading: Reading): AsyncGenerator<Buffer> {
  const { filter, lines, follow, signal } = reading;
  const matches = matcherOf(filter);
  // From here on nothing can come between what is kept and what is followed.
  const live = follow ? log.follow() : undefined;
  const end = live?.from ?? log.end;
  const leave = () => live !== undefined && log.leave(live.reader);
  signal.addEventListener('abort', leave, { once: true });
  const timer = setInterval(() => live?.reader.nudge(), reading.beatMs);
  try {
    let at = await startOf(log, end, { matches, lines, since: filter.since });
    while (!signal.aborted) {
      const block = await log.readFrom(at, end);
      if (block === undefined) break;
      if (block.lost > 0)
        yield notice(block.lost, 'deleted to make room: this reader is slower than the app writes', reading);
      if (block.damaged > 0) yield notice(block.damaged, 'lost here: the disk did not keep them', reading);
      yield* pick(block.bytes, matches);
      at = block.next;
    }
    if (live === undefined) return;
    for (;;) {
      const batch = await live.reader.next(linesAtOnce, { signal });
      if (batch === undefined) return;
      if (batch.skipped > 0)
        yield notice(batch.skipped, 'left out here: this reader is slower than the app writes', reading);
      const wanted = matches === undefined ? batch.entries : batch.entries.filter(matches);
      if (batch.entries.length === 0) yield beat;
      yield* joined(wanted);
    }
  } finally {
    clearInterval(timer);
    signal.removeEventListener('abort', leave);
    leave();
  }
}

function notice(count: number, what: string, { now }: Reading): Buffer {
  return noticeLine(`${linesWere(count)} ${what}`, new Date(now()).toISOString());
}

type Wanted = {
  matches: ((line: Buffer) => boolean) | undefined;
  lines: number | undefined;
  since: string | undefined;
};

/** The place before the newest so many lines that fit. */
async function startOf(log: AppLog, end: Position, { matches, lines, since }: Wanted): Promise<Position> {
  if (lines === 0) return end;
  const first = startOfTime(log, since);
  if (lines === undefined) return first;
  let missing = lines;
  let at = end;
  for await (const block of log.readBackwards(end)) {
    let { byte, line } = block.next;
    for (const text of [...linesOf(block.bytes)].toReversed()) {
      byte -= text.length;
      line -= 1;
      if (matches !== undefined && !matches(text)) continue;
      missing -= 1;
      at = { byte, line };
      if (missing === 0) return at;
    }
    at = block.from;
    if (at.byte <= first.byte) return first;
  }
  return at;
}

/** What was written to its end before that time holds nothing from after it. */
function startOfTime(log: AppLog, since: string | undefined): Position {
  if (since === undefined) return log.start;
  const sinceMs = Date.parse(since) - clockSlackMs;
  return log.segments.find(({ writtenMs }) => writtenMs >= sinceMs)?.start ?? log.end;
}
