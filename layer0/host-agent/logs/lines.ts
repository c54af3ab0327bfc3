/** From the engine's records to lines with an identity: whole or split at 10,000 bytes, never torn or told twice. */
import type { Container, LogRecord } from '../engine/engine.ts';
import type { LogLine } from '../api.ts';
import { metaOfLabels } from '../engine/labels.ts';
import { jobIdOf } from '../jobs/plan.ts';
import { formatTimestamp } from './timestamp.ts';

export const maxLineBytes = 10_000;

type Stream = LogRecord['stream'];

/**
 * A line, or a part of a long one. `index` counts the pieces of a stream with the same time, so that (stream, time, index)
 * is the same however often the log is read, from wherever.
 */
export type Piece = Readonly<{ stream: Stream; timestampNs: bigint; index: number; message: string }>;

/** How far a stream was read: `count` pieces of that time are done with, and everything before. */
export type Position = Readonly<{
  timestampNs: bigint;
  count: number;
  /** The latest time of what is done with, where the clock was set back since: such lines come before later ones. */
  highestNs?: bigint;
}>;

export type Cursor = Readonly<Partial<Record<Stream, Position>>>;

/**
 * Which pieces of one reading, from its start on, lie behind a cursor. Order decides, not time: once a piece is new, all that
 * come after it are, so a clock that is set back loses no line.
 */
export class Unread {
  readonly #cursor: Cursor;
  readonly #isPast = new Set<Stream>();

  constructor(cursor: Cursor) {
    this.#cursor = cursor;
  }

  /** To be asked about every piece, in order. */
  isNew(piece: Piece): boolean {
    const { stream, timestampNs, index } = piece;
    const position = this.#cursor[stream];
    if (position === undefined || this.#isPast.has(stream)) return true;
    if (timestampNs === position.timestampNs) {
      if (index === position.count - 1) this.#isPast.add(stream);
      if (index < position.count) return false;
    } else if (timestampNs <= (position.highestNs ?? position.timestampNs)) return false;
    this.#isPast.add(stream);
    return true;
  }
}

export function advance(cursor: Cursor, piece: Piece): Cursor {
  const { stream, timestampNs } = piece;
  const before = cursor[stream];
  const highestNs = before?.highestNs ?? before?.timestampNs ?? timestampNs;
  const position = { timestampNs, count: piece.index + 1, ...(highestNs > timestampNs ? { highestNs } : {}) };
  return { ...cursor, [stream]: position };
}

/** From where to read so that nothing unread is missed; undefined: from the start. `nowNs` is the clock that writes the log. */
export function readFrom({ stdout, stderr }: Cursor, nowNs: bigint): bigint | undefined {
  // A stream that was silent so far may have written before the other's position.
  if (stdout === undefined || stderr === undefined) return undefined;
  const fromNs = stdout.timestampNs < stderr.timestampNs ? stdout.timestampNs : stderr.timestampNs;
  // The clock was set back: what is written now has times before those.
  return fromNs > nowNs ? undefined : fromNs;
}

type Assembly = { timestampNs: bigint; count: number; rest: Buffer; isWithinLine: boolean };

/** Not a part of any buffer: the rest of nothing must not keep one in memory for each log. */
const nothing = Buffer.alloc(0);

/** Puts partial records together and splits long lines. It has to begin at a record that begins a time. */
export class LineAssembler {
  readonly #streams = new Map<Stream, Assembly>();

  push(record: LogRecord): Piece[] {
    const assembly = this.#assemblyOf(record);
    const message = Buffer.from(record.message);
    assembly.rest = assembly.rest.length === 0 ? message : Buffer.concat([assembly.rest, message]);
    const pieces: Piece[] = [];
    while (assembly.rest.length > maxLineBytes)
      pieces.push(this.#cut(record.stream, assembly, boundary(assembly.rest)));
    if (!record.isPartial) pieces.push(this.#cut(record.stream, assembly, assembly.rest.length));
    assembly.isWithinLine = record.isPartial;
    return pieces;
  }

  /** What an ended log left without a line's end. */
  flush(): Piece[] {
    return [...this.#streams]
      .filter(([, assembly]) => assembly.rest.length > 0)
      .map(([stream, assembly]) => this.#cut(stream, assembly, assembly.rest.length));
  }

  #assemblyOf({ stream, timestampNs }: LogRecord): Assembly {
    const known = this.#streams.get(stream);
    if (known !== undefined && (known.isWithinLine || known.timestampNs === timestampNs)) return known;
    const assembly = { timestampNs, count: 0, rest: nothing, isWithinLine: false };
    this.#streams.set(stream, assembly);
    return assembly;
  }

  #cut(stream: Stream, assembly: Assembly, length: number): Piece {
    const message = assembly.rest.toString('utf8', 0, length);
    assembly.rest = length === assembly.rest.length ? nothing : assembly.rest.subarray(length);
    const index = assembly.count;
    assembly.count += 1;
    return { stream, timestampNs: assembly.timestampNs, index, message };
  }
}

/** The last place at or before the limit where no character is cut in two. */
function boundary(bytes: Buffer): number {
  let at = maxLineBytes;
  while (at > 0 && ((bytes[at] ?? 0) & 0xc0) === 0x80) at -= 1;
  return at === 0 ? maxLineBytes : at;
}

/** Pieces of one time get times of their own, nanoseconds apart: the time is the line's identity. */
export function lineOf(piece: Piece, container: Container, hostId: string): LogLine {
  return {
    jobId: jobIdOf(container),
    hostId,
    stream: piece.stream,
    timestamp: formatTimestamp(piece.timestampNs + BigInt(piece.index)),
    message: piece.message,
    meta: metaOfLabels(container.labels),
  };
}
