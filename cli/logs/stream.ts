/** An app's log as it comes, over a cluster that restarts under it. */
import type { Readable } from 'node:stream';
import { pause, systemClock } from '@flynn/kit/clock';
import { hasCode } from '@flynn/kit/errors';
import { LineSplitter } from '@flynn/kit/lines';
import { untilSilent } from '@flynn/kit/silence';
import { heartbeatMs } from '@flynn/kit/sse';
import { type Line, type ReadOptions, lineSchema, maxLines } from '@flynn/log-aggregator/api';

/** Of one line as JSON: a message has at most 10,000 bytes, each of which may be escaped. */
const lineLimitBytes = 1024 * 1024;
const retryMs = 1_000;
const longestRetryMs = 5_000;
/** Lines of several hosts do not come in the order of their times: so far back the log is read again. */
const overlapMs = 60_000;

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
    /** This machine's clock; default the real one. */
    now?: () => number;
  },
): AsyncGenerator<LogRecord> {
  const { signal, now = () => systemClock.now() } = options;
  /** In the order they were told; those that may come again. */
  const told = new Set<string>();
  let newest = query.since ?? '';
  /** Until one that was told before comes again, the last of them: one that is newer than it comes after a gap. */
  let sought: string | undefined;
  let failures = 0;
  let body = await open(query);
  while (!signal.aborted) {
    try {
      for await (const json of textsOf(query.follow === true ? untilSilent(body, silence) : body)) {
        failures = 0;
        if (told.has(json)) {
          sought = undefined;
          continue;
        }
        const record = recordOf(json);
        if (record === undefined) {
          if (query.follow) told.add(json);
          options.onUnreadable();
          continue;
        }
        if (sought !== undefined && record.line.timestamp > sought) {
          options.onGap(sought, record.line.timestamp);
          sought = undefined;
        }
        if (query.follow) {
          told.add(json);
          forgetOldest(told);
          if (record.line.timestamp > newest) newest = record.line.timestamp;
        }
        yield record;
      }
      if (!query.follow) return;
    } catch (error) {
      if (!query.follow || !isPassing(error)) throw error;
    }
    if (signal.aborted) return;
    options.onLost();
    for (let isOpen = false; !isOpen && !signal.aborted;) {
      await pause(Math.min(longestRetryMs, retryMs * 2 ** failures), signal);
      failures += 1;
      try {
        // Nothing came yet: then all that is new is what is there.
        const reached = until(newest, now());
        const again = newest === '' ? query : { ...query, since: before(reached), lines: maxLines };
        body = await open(again);
        sought = told.size === 0 ? undefined : reached;
        isOpen = true;
      } catch (error) {
        if (hasCode(error, 'not_found') || signal.aborted) return;
        if (!isPassing(error)) throw error;
      }
    }
  }
}

function forgetOldest(told: Set<string>): void {
  for (const oldest of told) {
    if (told.size <= maxLines) return;
    told.delete(oldest);
  }
}

export function isPassing(error: unknown): boolean {
  return hasCode(error, 'unavailable', 'timeout', 'exhausted');
}

/** A host's clock may have been ahead: who asked for what comes after that would hear nothing of all the others. */
function until(timestamp: string, now: number): string {
  const latest = new Date(now).toISOString();
  return timestamp < latest ? timestamp : latest;
}

function before(timestamp: string): string {
  return new Date(Date.parse(timestamp) - overlapMs).toISOString();
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
