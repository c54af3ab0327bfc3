/** One app's log: on disk what is kept of it, and in memory what followers need. */
import { mkdir, open, rm } from 'node:fs/promises';
import { FlynnError, hasErrno } from '@flynn/kit/errors';
import { writeFileAtomic } from '@flynn/kit/files';
import { linesOf } from './filter.ts';
import { LogBuffer } from './log-buffer.ts';
import type { LogReader, WindowLimits } from './log-buffer.ts';
import { countLines, endOf, newline, openSegments, readBytes, segmentFile } from './segments.ts';
import type { Position, Segment } from './segments.ts';

export type AppLogLimits = Readonly<{
  /** Of the whole log: its oldest segments go. */
  bytes: number;
  segmentBytes: number;
}>;

/** Whole lines with their ends, from somewhere in the log. */
export type Block = Readonly<{
  bytes: Buffer;
  from: Position;
  next: Position;
  /** Lines that were asked for and are kept no longer. */
  lost: number;
  /** Those that the disk lost. */
  damaged: number;
}>;

const blockBytes = 256 * 1024;
/** No line is longer: see ingest.ts. */
const longestLineBytes = 2 * 1024 * 1024;

const sizeOf = (line: Buffer): number => line.length;

/**
 * INVARIANTS. Lines are on disk before anybody is told of them, in the same order for all: `append` resolves then. One
 * write at a time; what comes meanwhile makes up the next one. A write that fails leaves nothing behind, and those lines
 * are not in the log. At most `limits.bytes`, but for the segment that is written to. A log that had a line has one, so that no
 * place in it is ever given to another line. Followers share one buffer, which is there as long as they are.
 */
export class AppLog {
  readonly #dir: string;
  readonly #limits: AppLogLimits;
  readonly #window: WindowLimits | undefined;
  readonly #now: () => number;
  readonly #readers = new Set<LogReader<Buffer>>();
  readonly #onWritten = new Set<(lines: readonly Buffer[]) => void>();
  #segments: Segment[];
  #end: Position;
  #live: LogBuffer<Buffer> | undefined;
  /** What the next write takes, and how that ends: whoever adds to it hears of that write and of no other. */
  #pending: { lines: Buffer[]; written: Promise<void> } | undefined;
  #writing: Promise<void> | undefined;
  #cutting: Promise<void> | undefined;
  #isClosed = false;
  /** The last write may have left a part of itself behind. */
  #isTorn = false;
  #unsynced = new Set<string>();

  private constructor(
    segments: Segment[],
    options: { dir: string; limits: AppLogLimits; now: () => number; window?: WindowLimits },
  ) {
    this.#segments = segments;
    this.#dir = options.dir;
    this.#limits = options.limits;
    this.#window = options.window;
    this.#now = options.now;
    const last = segments.at(-1);
    this.#end = last === undefined ? { byte: 0, line: 0 } : endOf(last);
  }

  static async open(options: {
    dir: string;
    limits: AppLogLimits;
    now: () => number;
    window?: WindowLimits;
  }): Promise<AppLog> {
    await mkdir(options.dir, { recursive: true });
    return new AppLog(await openSegments(options.dir), options);
  }

  get bytes(): number {
    return this.#segments.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  get end(): Position {
    return this.#end;
  }

  get start(): Position {
    return this.#segments[0]?.start ?? this.#end;
  }

  get segments(): readonly Segment[] {
    return this.#segments;
  }

  /** Whether `dropOldest` has anything to give. */
  get hasMoreThanItsEnd(): boolean {
    const [oldest, next] = this.#segments;
    return next !== undefined || (oldest !== undefined && oldest.lines > 1);
  }

  get followers(): number {
    return this.#readers.size;
  }

  /** Lines with their ends. Resolves once they are in the file; rejects if they could not be written. */
  async append(lines: readonly Buffer[]): Promise<void> {
    if (lines.length === 0) return;
    if (this.#pending === undefined) {
      const taken: Buffer[] = [];
      this.#pending = { lines: taken, written: this.#writeNext(taken) };
    }
    for (const line of lines) this.#pending.lines.push(line);
    await this.#pending.written;
  }

  /** Resolves when what is under way, or waits for that, has ended, however it did. */
  async settled(): Promise<void> {
    await Promise.allSettled([this.#pending?.written, this.#writing, this.#cutting]);
  }

  /** A write begins with all that came until then; nothing else is under way. */
  async #writeNext(lines: readonly Buffer[]): Promise<void> {
    do await Promise.allSettled([this.#writing, this.#cutting]);
    while (this.#writing !== undefined || this.#cutting !== undefined);
    this.#pending = undefined;
    this.#writing = this.#write(lines).finally(() => {
      this.#writing = undefined;
    });
    await this.#writing;
  }

  async #write(lines: readonly Buffer[]): Promise<void> {
    if (this.#isClosed) throw new FlynnError('unavailable', 'this log is closed');
    const bytes = Buffer.concat(lines);
    const segment = await this.#segmentToWrite();
    await this.#put(segment, bytes);
    segment.bytes += bytes.length;
    segment.lines += lines.length;
    segment.writtenMs = this.#now();
    this.#unsynced.add(segment.file);
    this.#end = { byte: this.#end.byte + bytes.length, line: this.#end.line + lines.length };
    for (const listener of this.#onWritten) listener(lines);
    // Cut out of one piece, so that a follower's lines are one piece again: a write for each would cost more than all else.
    this.#live?.write([...linesOf(bytes)]);
    await this.#trim();
  }

  async #segmentToWrite(): Promise<Segment> {
    const last = this.#segments.at(-1);
    if (last !== undefined && last.bytes < this.#limits.segmentBytes) return last;
    const file = segmentFile(this.#dir, this.#end);
    await mkdir(this.#dir, { recursive: true });
    await (await open(file, 'w', 0o600)).close();
    const segment = { file, start: this.#end, bytes: 0, lines: 0, writtenMs: this.#now() };
    this.#segments.push(segment);
    return segment;
  }

  async #put(segment: Segment, bytes: Buffer): Promise<void> {
    await using handle = await open(segment.file, 'r+');
    if (this.#isTorn) await handle.truncate(segment.bytes);
    this.#isTorn = true;
    try {
      for (let done = 0; done < bytes.length;) {
        done += (await handle.write(bytes, done, bytes.length - done, segment.bytes + done)).bytesWritten;
      }
    } catch (error) {
      await handle.truncate(segment.bytes);
      this.#isTorn = false;
      throw error;
    }
    this.#isTorn = false;
  }

  async #trim(): Promise<void> {
    while (this.#segments.length > 1 && this.bytes > this.#limits.bytes) await this.#dropFirst();
  }

  /**
   * Makes room by the oldest segment; not of what is being written. Of the only one its newest line stays: by that the log
   * knows after a restart where it ends, and how old what was deleted is. False if there is nothing to give.
   */
  async dropOldest(): Promise<boolean> {
    await this.settled();
    const [oldest, next] = this.#segments;
    if (oldest === undefined || this.#writing !== undefined || !this.hasMoreThanItsEnd) return false;
    if (next !== undefined) {
      await this.#dropFirst();
      return true;
    }
    this.#cutting ??= this.#cutToNewestLine(oldest).finally(() => {
      this.#cutting = undefined;
    });
    await this.#cutting;
    return true;
  }

  /**
   * Whatever ends this in the middle, both files say the same of the line that they both have then. The new one has its name
   * once it is whole: as the last one it says where the log ends.
   */
  async #cutToNewestLine(segment: Segment): Promise<void> {
    const block = (await blockBefore(segment.file, segment.bytes)) ?? Buffer.alloc(0);
    const line = block.subarray(block.lastIndexOf(newline, -2) + 1);
    const lines = countLines(line);
    const start = { byte: this.#end.byte - line.length, line: this.#end.line - lines };
    const file = segmentFile(this.#dir, start);
    await writeFileAtomic(file, line);
    this.#segments[0] = { file, start, bytes: line.length, lines, writtenMs: segment.writtenMs };
    this.#unsynced.delete(segment.file);
    await rm(segment.file, { force: true });
  }

  async #dropFirst(): Promise<void> {
    const segment = this.#segments.shift();
    if (segment === undefined) return;
    this.#unsynced.delete(segment.file);
    await rm(segment.file, { force: true });
  }

  /** To the disk itself, so that a power cut takes nothing from before. */
  async sync(): Promise<void> {
    const files = [...this.#unsynced];
    this.#unsynced.clear();
    for (const file of files) {
      try {
        await using handle = await open(file, 'r+');
        await handle.datasync();
      } catch (error) {
        if (hasErrno(error, 'ENOENT')) continue;
        this.#unsynced.add(file);
        throw error;
      }
    }
  }

  /** Told of all that is written from now on, once it is in the file and before `append` resolves. What it gives ends that. */
  onWritten(listener: (lines: readonly Buffer[]) => void): () => void {
    this.#onWritten.add(listener);
    return () => void this.#onWritten.delete(listener);
  }

  /** What comes from now on, and the place up to which it was told before. To be given back with `leave`. */
  follow(): { reader: LogReader<Buffer>; from: Position } {
    this.#live ??= new LogBuffer({ sizeOf, ...(this.#window === undefined ? {} : { limits: this.#window }) });
    const reader = this.#live.open({ history: 0 });
    this.#readers.add(reader);
    return { reader, from: this.#end };
  }

  leave(reader: LogReader<Buffer>): void {
    reader.cancel();
    this.#readers.delete(reader);
    if (this.#readers.size === 0) this.#live = undefined;
  }

  /** Some lines from that place on, of some `sizeBytes` and not beyond `to`; undefined if there are none. */
  async readFrom(from: Position, to: Position, sizeBytes = blockBytes): Promise<Block | undefined> {
    let at = from;
    let lost = 0;
    let damaged = 0;
    while (at.byte < to.byte) {
      const here = at;
      const segment = this.#segments.find((each) => endOf(each).byte > here.byte);
      if (segment === undefined) return undefined;
      if (segment.start.byte > at.byte) {
        const missing = Math.max(0, segment.start.line - at.line);
        if (segment === this.#segments[0]) lost += missing;
        else damaged += missing;
        at = segment.start;
        continue;
      }
      const offset = at.byte - segment.start.byte;
      const available = Math.min(segment.bytes - offset, to.byte - at.byte);
      const bytes = await wholeLines(segment.file, { offset, available, sizeBytes });
      if (bytes === undefined) {
        // Deleted while it was opened, or shorter than it was: go on behind it.
        lost += endOf(segment).line - at.line;
        at = endOf(segment);
        continue;
      }
      if (bytes.at(-1) !== newline) {
        // It would become one with the line behind it.
        damaged += 1;
        at = bytes.length === available ? placeBehind(segment, to) : { ...at, byte: at.byte + bytes.length };
        continue;
      }
      const next = { byte: at.byte + bytes.length, line: at.line + countLines(bytes) };
      return { bytes, from: at, next, lost, damaged };
    }
    return undefined;
  }

  /** Everything before that place, the newest first, in blocks that each go from old to new. */
  async *readBackwards(to: Position): AsyncGenerator<Block> {
    let end = to;
    for (const segment of this.#segments.toReversed()) {
      if (segment.start.byte >= end.byte) continue;
      // Between two of them lines may be missing.
      if (endOf(segment).byte < end.byte) end = endOf(segment);
      let offset = end.byte - segment.start.byte;
      while (offset > 0) {
        const block = await blockBefore(segment.file, offset);
        if (block === undefined) break;
        offset -= block.length;
        const from = { byte: segment.start.byte + offset, line: end.line - countLines(block) };
        yield { bytes: block, from, next: end, lost: 0, damaged: 0 };
        end = from;
      }
      end = segment.start;
    }
  }

  /** Followers come to their end; nothing is written any more. */
  async close(): Promise<void> {
    await this.settled();
    this.#isClosed = true;
    this.#live?.close();
  }

  /** With everything in it. */
  async remove(): Promise<void> {
    await this.close();
    this.#segments = [];
    await rm(this.#dir, { recursive: true, force: true });
  }
}

function placeBehind(segment: Segment, to: Position): Position {
  const end = endOf(segment);
  return end.byte < to.byte ? end : to;
}

/** Whole lines from `offset` on, at least one, within `available`. */
async function wholeLines(
  file: string,
  { offset, available, sizeBytes }: { offset: number; available: number; sizeBytes: number },
): Promise<Buffer | undefined> {
  for (let length = sizeBytes; ; length *= 4) {
    const bytes = await readBytes(file, offset, Math.min(length, available));
    if (bytes === undefined || bytes.length === 0) return undefined;
    const last = bytes.lastIndexOf(newline);
    if (last >= 0) return bytes.subarray(0, last + 1);
    // No end within the longest line there can be: the disk has damaged it.
    if (length >= longestLineBytes || length >= available) return bytes;
  }
}

/** Whole lines that end at `offset`, at least one. */
async function blockBefore(file: string, offset: number): Promise<Buffer | undefined> {
  for (let length = blockBytes; ; length *= 4) {
    const start = Math.max(0, offset - length);
    const bytes = await readBytes(file, start, offset - start);
    if (bytes === undefined || bytes.length === 0) return undefined;
    if (start === 0) return bytes;
    const first = bytes.indexOf(newline);
    if (first >= 0 && first < bytes.length - 1) return bytes.subarray(first + 1);
    if (length >= longestLineBytes) return bytes;
  }
}
