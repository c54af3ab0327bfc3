/** The files of one app's log: what they are named, what is in them, and how they are made whole after a crash. */
import { hasErrno } from '@flynn/kit/errors';
import { open, readdir, rename, rm, stat } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { join } from 'node:path';

/** A place between two lines of an app's log, counted from its beginning, what was deleted since included. */
export type Position = Readonly<{ byte: number; line: number }>;

export type Segment = {
  readonly file: string;
  readonly start: Position;
  bytes: number;
  lines: number;
  /** When it was last written to. */
  writtenMs: number;
};

export const newline = 0x0a;
const blockBytes = 256 * 1024;
/** What is written beside a segment, to be renamed: see writeFileAtomic. */
const leftoverShape = /^\..*\.tmp$/;
const nameShape = /^(\d{16})-(\d{14})\.ndjson$/;

export function segmentFile(dir: string, { byte, line }: Position): string {
  return join(dir, `${String(byte).padStart(16, '0')}-${String(line).padStart(14, '0')}.ndjson`);
}

export function endOf({ start, bytes, lines }: Segment): Position {
  return { byte: start.byte + bytes, line: start.line + lines };
}

export function countLines(bytes: Uint8Array): number {
  let count = 0;
  for (let at = bytes.indexOf(newline); at >= 0; at = bytes.indexOf(newline, at + 1)) count += 1;
  return count;
}

/**
 * In their order, made whole: a line that was not written to its end, and whatever a power cut left behind it, is cut off.
 * Of what was cut off before another segment the lines are missing between the two. What a cut to the newest line left is removed;
 * where two say different things of one place, the later file's lines go to the log's end.
 */
export async function openSegments(dir: string): Promise<Segment[]> {
  const names = await readdir(dir);
  for (const name of names) if (leftoverShape.test(name)) await rm(join(dir, name), { force: true });
  const starts = names
    .flatMap((name) => {
      const [, byte, line] = nameShape.exec(name) ?? [];
      return byte === undefined || line === undefined ? [] : [{ byte: Number(byte), line: Number(line) }];
    })
    .sort((a, b) => a.byte - b.byte);
  const found = await Promise.all(starts.map((start) => findSegment(dir, start)));
  const { inPlace, displaced } = await apart(found);
  const segments = await Promise.all(inPlace.map((one, index) => openSegment(one, inPlace[index + 1])));
  // One after the other: a crash in between leaves the others where they are, to be found again.
  for (const { file, writtenMs } of displaced) {
    const last = segments.at(-1);
    const start = last === undefined ? { byte: 0, line: 0 } : endOf(last);
    const { bytes, lines } = await makeWhole(file);
    const moved = segmentFile(dir, start);
    await rename(file, moved);
    // It took the name of one that nothing had been written to yet.
    if (last?.bytes === 0) segments.pop();
    segments.push({ file: moved, start, bytes, lines, writtenMs });
  }
  return segments;
}

type Found = { file: string; start: Position; size: number; writtenMs: number };

async function findSegment(dir: string, start: Position): Promise<Found> {
  const file = segmentFile(dir, start);
  const { size, mtimeMs } = await stat(file);
  return { file, start, size, writtenMs: mtimeMs };
}

/**
 * A cut that did not come to its end leaves a file of which the one before has everything: it would hide what comes after it
 * there. A version before took such a file for the log's end and wrote there what is nowhere else.
 */
async function apart(found: readonly Found[]): Promise<{ inPlace: Found[]; displaced: Found[] }> {
  const inPlace: Found[] = [];
  const displaced: Found[] = [];
  for (const one of found) {
    const before = inPlace.at(-1);
    if (before !== undefined && endByteOf(before) > one.start.byte) {
      before.size = (await makeWhole(before.file)).bytes;
      one.size = (await makeWhole(one.file)).bytes;
      const shared = Math.min(endByteOf(before) - one.start.byte, one.size);
      const isSame = await areSame(before.file, {
        at: one.start.byte - before.start.byte,
        file: one.file,
        length: shared,
      });
      if (!isSame) {
        displaced.push(one);
        continue;
      }
      if (endByteOf(one) <= endByteOf(before)) {
        await rm(one.file, { force: true });
        continue;
      }
    }
    inPlace.push(one);
  }
  return { inPlace, displaced };
}

function endByteOf({ start, size }: Found): number {
  return start.byte + size;
}

/** Whether so much of a file from `at` on is what the other begins with. */
async function areSame(
  former: string,
  { at, file, length }: { at: number; file: string; length: number },
): Promise<boolean> {
  for (let done = 0; done < length; done += blockBytes) {
    const size = Math.min(blockBytes, length - done);
    const [one, other] = [await readBytes(former, at + done, size), await readBytes(file, done, size)];
    if (one === undefined || other === undefined || !one.equals(other)) return false;
  }
  return true;
}

async function openSegment({ file, start, size, writtenMs }: Found, next: Found | undefined): Promise<Segment> {
  const room = next === undefined ? undefined : next.start.byte - start.byte;
  const isWhole = next !== undefined && size === room && (await readBytes(file, size - 1, 1))?.[0] === newline;
  const { bytes, lines } = isWhole ? { bytes: size, lines: next.start.line - start.line } : await makeWhole(file, room);
  return { file, start, bytes, lines, writtenMs };
}

/** Cuts off what is no line, and what is beyond `limitBytes`. */
async function makeWhole(file: string, limitBytes = Infinity): Promise<{ bytes: number; lines: number }> {
  await using handle = await open(file, 'r+');
  const { size: found } = await handle.stat();
  const size = Math.min(found, limitBytes);
  const block = Buffer.alloc(blockBytes);
  let bytes = 0;
  let lines = 0;
  for (let at = 0; at < size;) {
    const { bytesRead } = await handle.read(block, 0, Math.min(blockBytes, size - at), at);
    if (bytesRead === 0) break;
    const read = block.subarray(0, bytesRead);
    // What the disk had not got yet when the power went reads as zeros.
    const zero = read.indexOf(0);
    const sound = zero < 0 ? read : read.subarray(0, zero);
    const last = sound.lastIndexOf(newline);
    if (last >= 0) bytes = at + last + 1;
    lines += countLines(sound);
    if (zero >= 0) break;
    at += bytesRead;
  }
  if (bytes < found) await handle.truncate(bytes);
  return { bytes, lines };
}

/** `length` bytes from `at` on, fewer at the file's end; undefined if the file was deleted meanwhile. */
export async function readBytes(file: string, at: number, length: number): Promise<Buffer | undefined> {
  let handle: FileHandle | undefined;
  try {
    handle = await open(file, 'r');
    const bytes = Buffer.allocUnsafe(length);
    let filled = 0;
    while (filled < length) {
      const { bytesRead } = await handle.read(bytes, filled, length - filled, at + filled);
      if (bytesRead === 0) break;
      filled += bytesRead;
    }
    return bytes.subarray(0, filled);
  } catch (error) {
    if (hasErrno(error, 'ENOENT')) return undefined;
    throw error;
  } finally {
    await handle?.close();
  }
}
