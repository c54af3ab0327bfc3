/** An app's log as it comes, through connections that break: each line once, and a gap told where lines may be missing. */
import type { Line } from '@flynn/log-aggregator/api';
import { apiUrl } from '../api/client.ts';
import { asFailure, isPassing } from '../api/failure.ts';
import type { Link } from '../api/following.ts';

/** Which of an app's lines. */
export type LogQuery = Readonly<{ app: string; type?: string; job?: string; search?: string }>;

export type LogItem =
  | Readonly<{ is: 'line'; line: Line }>
  /** Between these moments lines may be missing. */
  | Readonly<{ is: 'gap'; from: string; to: string }>
  /** Here was a line that a disk damaged. */
  | Readonly<{ is: 'unreadable' }>;

/** How far a log was told: whoever follows it from there on tells nothing twice. */
export type LogPlace = {
  /** In the order they were told; those that may come again. */
  readonly told: Set<string>;
  newest: string | undefined;
  /** Of what was told first: older lines were left out where it is as many as were asked for. */
  first: Readonly<{ lines: number; oldest: string | undefined }>;
};

export function logStart(): LogPlace {
  return { told: new Set(), newest: undefined, first: { lines: 0, oldest: undefined } };
}

/** What somebody sees first, and the most the cluster gives in one answer. */
const firstLines = 500;
const mostLines = 10_000;
/** Lines of several hosts do not come in the order of their times: so far back it is read again. */
const overlapMs = 60_000;
const firstWaitMs = 500;
const longestWaitMs = 10_000;

export function logUrl({ app, type, job, search }: LogQuery, part: { lines: number; since?: string }): string {
  const query = { follow: true, processType: type, jobId: job, search, ...part };
  return apiUrl('/apps/:app/log', { params: { app }, query });
}

/** Resolves when the signal aborts, or when it is refused. */
export async function followLog(
  query: LogQuery,
  ports: {
    open: (url: string) => Promise<AsyncIterable<string>>;
    onItem: (item: LogItem) => void;
    onLink: (link: Link) => void;
    signal: AbortSignal;
    wait: (ms: number, signal: AbortSignal) => Promise<void>;
    now: () => number;
    /** Where somebody left off; what is told from here on is kept in it. Default: nothing was told yet. */
    place?: LogPlace;
  },
): Promise<void> {
  const { open, onItem, onLink, signal, wait, now, place = logStart() } = ports;
  const { told } = place;
  /** Until one that was told before comes again, the last of them: one that is newer than it comes after a gap. */
  let sought: string | undefined;
  let failures = 0;
  onLink({ is: 'connecting' });
  while (!signal.aborted) {
    try {
      const reached = place.newest === undefined ? undefined : until(place.newest, now());
      const part = reached === undefined ? { lines: firstLines } : { lines: mostLines, since: beginOf(place, reached) };
      const lines = await open(logUrl(query, part));
      onLink({ is: 'live' });
      sought = reached;
      for await (const json of lines) {
        if (signal.aborted) return;
        failures = 0;
        if (told.has(json)) {
          sought = undefined;
          continue;
        }
        const line = lineOf(json);
        if (line === undefined) {
          told.add(json);
          onItem({ is: 'unreadable' });
          continue;
        }
        if (sought !== undefined && line.timestamp > sought) {
          onItem({ is: 'gap', from: sought, to: line.timestamp });
          sought = undefined;
        }
        told.add(json);
        forgetOldest(told);
        if (place.newest === undefined || line.timestamp > place.newest) place.newest = line.timestamp;
        if (place.first.lines < firstLines) place.first = withOne(place.first, line.timestamp);
        onItem({ is: 'line', line });
      }
      if (signal.aborted) return;
      onLink({ is: 'lost', why: 'the connection ended' });
    } catch (error) {
      if (signal.aborted) return;
      const failure = asFailure(error);
      onLink({ is: isPassing(failure) ? 'lost' : 'refused', why: failure.message });
      if (!isPassing(failure)) return;
    }
    await wait(Math.min(longestWaitMs, firstWaitMs * 2 ** failures), signal);
    failures += 1;
  }
}

/** undefined for what is no line. */
function lineOf(json: string): Line | undefined {
  try {
    const { timestamp, message, ...rest } = JSON.parse(json) as Partial<Line>;
    return timestamp === undefined || message === undefined ? undefined : ({ ...rest, timestamp, message } as Line);
  } catch {
    return undefined;
  }
}

/** The command that reads what is kept of lines that may be missing. */
export function gapCommand({ from, to }: { from: string; to: string }, { app, type, job, search }: LogQuery): string {
  const options = Object.entries({ '-a': app, '-t': type, '-j': job, '--search': search });
  const words = options.flatMap(([name, value]) => (value === undefined ? [] : [name, quoted(value)]));
  return `flynn log ${words.join(' ')} --since ${from} --until ${to}`;
}

function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;
}

function forgetOldest(told: Set<string>): void {
  for (const oldest of told) {
    if (told.size <= mostLines) return;
    told.delete(oldest);
  }
}

/** A host's clock may have been ahead: who asked for what comes after that would hear nothing of all the others. */
function until(timestamp: string, now: number): string {
  const latest = new Date(now).toISOString();
  return timestamp < latest ? timestamp : latest;
}

function withOne({ lines, oldest }: LogPlace['first'], timestamp: string): LogPlace['first'] {
  return { lines: lines + 1, oldest: oldest !== undefined && oldest < timestamp ? oldest : timestamp };
}

/** From where it is read again, which is before none that was left out at first. */
function beginOf({ first: { lines, oldest } }: LogPlace, reached: string): string {
  const before = new Date(Date.parse(reached) - overlapMs).toISOString();
  if (lines < firstLines || oldest === undefined || oldest < before) return before;
  return oldest < reached ? oldest : reached;
}
