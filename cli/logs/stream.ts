/** An app's log as it comes, over a cluster that restarts under it. */
import type { Readable } from 'node:stream';
import { type Clock, pause, systemClock } from '@flynn/kit/clock';
import { hasCode } from '@flynn/kit/errors';
import { LineSplitter } from '@flynn/kit/lines';
import { untilSilent } from '@flynn/kit/silence';
import { heartbeatMs } from '@flynn/kit/sse';
import { type Line, type ReadOptions, lineSchema } from '@flynn/log-aggregator/api';
import { Told } from './told.ts';

/** Of one line as JSON: a message has at most 10,000 bytes, each of which may be escaped. */
const lineLimitBytes = 1024 * 1024;
const retryMs = 1_000;
const longestRetryMs = 5_000;

/** There is a sign of life at each beat; a connection that is dead says nothing, which would look like an app that does not. */
const silence = { what: 'the log', silenceMs: 3 * heartbeatMs, code: 'unavailable' } as const;

export type LogRecord = Readonly<{ json: string; line: Line }>;

/**
 * Ends after what is kept; following, when the signal aborts or the app is gone: what is in between is made good by
 * connecting again, and each line is told once; `onGap` where what is kept, or given in one answer, does not reach back to the last
 * line that was told; `onUnreadable` for a line that a disk damaged, which is left out. What fails before the first answer is
 * thrown.
 */
export async function* logRecords(
  open: (query: ReadOptions) => Promise<Readable>,
  query: ReadOptions,
  options: {
    signal: AbortSignal;
    onLost: () => void;
    onGap: (from: string, to: string) => void;
    onUnreadable: () => void;
    /** This machine's; default the real one. */
    clock?: Clock;
  },
): AsyncGenerator<LogRecord> {
  const { signal, clock = systemClock } = options;
  const isFollowed = query.follow === true;
  const told = new Told(query, () => clock.now());
  /** Until one that was told before comes again, the last of them: one that is newer than it comes after a gap. */
  let sought: string | undefined;
  let failures = 0;
  let body = await open(query);
  while (!signal.aborted) {
    try {
      for await (const json of textsOf(untilSilent(body, silence))) {
        failures = 0;
        if (told.has(json)) {
          sought = undefined;
          continue;
        }
        const record = recordOf(json);
        if (isFollowed) told.add(json, record?.line);
        if (record === undefined) {
          options.onUnreadable();
          continue;
        }
        if (sought !== undefined && record.line.timestamp > sought) {
          options.onGap(sought, record.line.timestamp);
          sought = undefined;
        }
        yield record;
      }
      if (!isFollowed) return;
    } catch (error) {
      if (!isFollowed || !isPassing(error)) throw error;
    }
    if (signal.aborted) return;
    options.onLost();
    for (let isOpen = false; !isOpen && !signal.aborted;) {
      await pause(Math.min(longestRetryMs, retryMs * 2 ** failures), signal, clock);
      failures += 1;
      try {
        const { reached } = told;
        body = await open(told.next());
        sought = reached;
        isOpen = true;
      } catch (error) {
        if (hasCode(error, 'not_found') || signal.aborted) return;
        if (!isPassing(error)) throw error;
      }
    }
  }
}

export function isPassing(error: unknown): boolean {
  return hasCode(error, 'unavailable', 'timeout', 'exhausted');
}

async function* textsOf(body: Readable): AsyncGenerator<string> {
  const splitter = new LineSplitter({ maxBytes: lineLimitBytes });
  for await (const chunk of body) {
    for (const json of splitter.push(chunk)) if (json !== '') yield json;
  }
  for (const json of splitter.flush()) if (json !== '') yield json;
}

/** undefined for what is no line. */
function recordOf(json: string): LogRecord | undefined {
  try {
    return { json, line: lineSchema.parse(JSON.parse(json)) };
  } catch {
    return undefined;
  }
}
