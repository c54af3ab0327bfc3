/** A job's log for whoever asks for it now. */
import { systemClock } from '@flynn/kit/clock';
import type { LogLine } from '../api.ts';
import type { ContainerTable } from '../containers/table.ts';
import type { Container, Engine, LogOptions } from '../engine/engine.ts';
import { LineAssembler, Unread, advance, lineOf, readFrom } from './lines.ts';
import type { Cursor, Piece } from './lines.ts';

type Source = { engine: Engine; containers: ContainerTable; hostId: string };

/** What there is, or its newest records; with `until` only what lies behind that cursor. */
export async function* linesOf(
  { engine, hostId }: Pick<Source, 'engine' | 'hostId'>,
  container: Container,
  { until, ...options }: { tail?: number; signal: AbortSignal; until?: Cursor },
): AsyncGenerator<LogLine> {
  const unread = until === undefined ? undefined : new Unread(until);
  for await (const piece of pieces(engine, container, { ...options, follow: false })) {
    if (unread?.isNew(piece) === true) continue;
    yield lineOf(piece, container, hostId);
  }
}

/** Goes on over restarts, until `isOver` says that the job ends for good. */
export async function* followLines(
  { engine, containers, hostId }: Source,
  jobId: string,
  options: { tail?: number; signal: AbortSignal; isOver: () => boolean },
): AsyncGenerator<LogLine> {
  const { signal } = options;
  let cursor: Cursor = {};
  let tail = options.tail;
  /** Until it is started again there is nothing new in it, and looking may mean to read all of it. */
  let readEndedAtMs: number | undefined;
  while (!signal.aborted) {
    const isLast = options.isOver();
    const container = containers.ofJob(jobId);
    const changed = nextChange(containers, signal);
    const isAllRead = readEndedAtMs !== undefined && container?.endedAtMs === readEndedAtMs;
    if (container !== undefined && container.state !== 'created' && !isAllRead) {
      const sinceNs = readFrom(cursor, BigInt(systemClock.now()) * 1_000_000n);
      const range = { ...(tail === undefined ? {} : { tail }), ...(sinceNs === undefined ? {} : { sinceNs }) };
      const unread = new Unread(cursor);
      for await (const piece of pieces(engine, container, { ...range, follow: !isLast, signal })) {
        if (!unread.isNew(piece)) continue;
        yield lineOf(piece, container, hostId);
        cursor = advance(cursor, piece);
      }
      tail = undefined;
      readEndedAtMs = container.state === 'exited' ? container.endedAtMs : undefined;
    }
    if (isLast) return;
    await changed;
  }
}

async function* pieces(engine: Engine, container: Container, options: LogOptions): AsyncGenerator<Piece> {
  const assembler = new LineAssembler();
  for await (const record of engine.logs(container.id, options)) yield* assembler.push(record);
  yield* assembler.flush();
}

/** Long enough not to be polling, short enough for a change that nobody announced. */
const patienceMs = 500;

function nextChange(containers: ContainerTable, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const finish = () => {
      off();
      clearTimeout(timer);
      signal.removeEventListener('abort', finish);
      resolve();
    };
    const off = containers.onChange(finish);
    const timer = setTimeout(finish, patienceMs);
    signal.addEventListener('abort', finish, { once: true });
  });
}
