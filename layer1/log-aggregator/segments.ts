/** The files of one app's log: what they are named, what is in them, and how they are made whole after a crash. */
import { hasErrno } from '@flynn/kit/errors';
import { open, readdir, stat } from 'node:fs/promises';
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

/** In their order. Of the last one a line that was not written to its end, and whatever a power cut left behind it, is cut off. */
export async function openSegments(dir: string): Promise<Segment[]> {
  const starts = (await readdir(dir))
    .flatMap((name) => {
      const [, byte, line] = nameShape.exec(name) ?? [];
      return byte === undefined || line === undefined ? [] : [{ byte: Number(byte), line: Number(line) }];
    })
    .sort((a, b) => a.byte - b.byte);
  const openOne = async (start: Position, index: number): Promise<Segment> => {
    const file = segmentFile(dir, start);
    const { size, mtimeMs } = await stat(file);
    const next = starts[index + 1];
    const { bytes, lines } =
      next === undefined ? await makeWhole(file) : { bytes: size, lines: next.line - start.line };
    return { file, start, bytes, lines, writtenMs: mtimeMs };
  };
  return Promise.all(starts.map(openOne));
}

async function makeWhole(file: string): Promise<{ bytes: number; lines: number }> {
  await using handle = await open(file, 'r+');
  const { size } = await handle.stat();
  const block = Buffer.alloc(blockBytes);
  let bytes = 0;
  let lines = 0;
  for (let at = 0; at < size;) {
    const { bytesRead } = await handle.read(block, 0, blockBytes, at);
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
  if (bytes < size) await handle.truncate(bytes);
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
