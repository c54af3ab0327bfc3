/**
 * What encrypted files of ours consist of: a line that says how, then frames of 64 KiB of AES-256-GCM. Frames are counted in
 * their nonces, and the last says that it is the last (the STREAM construction of Hoang, Reyhanitabar, Rogaway and Vizár): none
 * can be left out, moved or added. The line is authenticated with each of them.
 *
 * INVARIANT. A key is of one file only: nonces begin at 0 in each.
 */
import { createCipheriv, createDecipheriv } from 'node:crypto';
import { FlynnError } from '@flynn/kit/errors';
import type { Bytes } from './archive.ts';

const frameBytes = 64 * 1024;
const tagBytes = 16;
const maxLineBytes = 1_024;

/** `key` of 32 bytes. */
type Sealing = Readonly<{ key: Buffer; line: Buffer }>;

/** The line is not among what comes out. */
export async function* sealFrames(source: Bytes, { key, line }: Sealing): AsyncGenerator<Uint8Array> {
  let count = 0;
  for await (const { frame, isLast } of framesOf(source, frameBytes)) {
    const cipher = createCipheriv('aes-256-gcm', key, nonceOf(count, isLast));
    cipher.setAAD(line);
    yield Buffer.concat([cipher.update(frame), cipher.final(), cipher.getAuthTag()]);
    count += 1;
  }
}

/** What comes after the line. `invalid` as soon as a frame is not what was written; `notIts`: what a first one that is not says. */
export async function* openFrames(
  source: Bytes,
  { key, line, notIts }: Sealing & Readonly<{ notIts: string }>,
): AsyncGenerator<Uint8Array> {
  let count = 0;
  for await (const { frame, isLast } of framesOf(source, frameBytes + tagBytes)) {
    const why = count === 0 ? notIts : 'the backup is damaged or was cut';
    yield opened(frame, { key, line, nonce: nonceOf(count, isLast), why });
    count += 1;
  }
}

/** `line`: with its end; undefined for what does not begin so, whose bytes are all in `rest`. `invalid` for one without an end. */
export async function splitLine(
  source: AsyncIterator<Uint8Array>,
  magic: string,
): Promise<{ line: Buffer | undefined; rest: Bytes }> {
  const head = await headOf(source);
  const restFrom = (at: number): Bytes => ({
    async *[Symbol.asyncIterator]() {
      yield head.subarray(at);
      yield* { [Symbol.asyncIterator]: () => source };
    },
  });
  if (!head.toString('latin1', 0, magic.length).startsWith(magic)) return { line: undefined, rest: restFrom(0) };
  const end = head.indexOf(0x0a);
  if (end < 0 || end > maxLineBytes) throw new FlynnError('invalid', 'the backup is damaged: its header has no end');
  return { line: head.subarray(0, end + 1), rest: restFrom(end + 1) };
}

/** The first bytes, as many as a line may have, unless there are fewer. */
async function headOf(iterator: AsyncIterator<Uint8Array>): Promise<Buffer> {
  let head = Buffer.alloc(0);
  while (head.length <= maxLineBytes) {
    const next = await iterator.next();
    if (next.done === true) break;
    head = Buffer.concat([head, next.value]);
  }
  return head;
}

function opened(frame: Buffer, { key, line, nonce, why }: Sealing & { nonce: Buffer; why: string }): Buffer {
  if (frame.length < tagBytes) throw new FlynnError('invalid', why);
  try {
    const decipher = createDecipheriv('aes-256-gcm', key, nonce);
    decipher.setAAD(line);
    decipher.setAuthTag(frame.subarray(frame.length - tagBytes));
    return Buffer.concat([decipher.update(frame.subarray(0, frame.length - tagBytes)), decipher.final()]);
  } catch (error) {
    throw new FlynnError('invalid', why, { cause: error });
  }
}

/** Pieces of exactly that size, the last of what is left, which may be nothing. */
async function* framesOf(source: Bytes, size: number): AsyncGenerator<{ frame: Buffer; isLast: boolean }> {
  let chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of source) {
    chunks.push(chunk);
    bytes += chunk.length;
    // A whole one is given out only once there is more: the last one says so.
    if (bytes <= size) continue;
    const all = Buffer.concat(chunks);
    let at = 0;
    for (; all.length - at > size; at += size) yield { frame: all.subarray(at, at + size), isLast: false };
    chunks = [all.subarray(at)];
    bytes = all.length - at;
  }
  yield { frame: Buffer.concat(chunks), isLast: true };
}

function nonceOf(count: number, isLast: boolean): Buffer {
  const nonce = Buffer.alloc(12);
  nonce.writeUIntBE(count, 5, 6);
  nonce.writeUInt8(isLast ? 1 : 0, 11);
  return nonce;
}
