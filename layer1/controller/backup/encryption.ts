/**
 * A backup that only who has its passphrase can read: the archive in frames of AES-256-GCM, under a key that scrypt makes
 * of the passphrase and a salt of the file's own. Frames are counted in their nonces, and the last says that it is the
 * last (the STREAM construction of Hoang, Reyhanitabar, Rogaway and Vizár): none can be left out, moved or added.
 */
import { createCipheriv, createDecipheriv, randomBytes, scrypt } from 'node:crypto';
import { promisify } from 'node:util';
import { FlynnError } from '@flynn/kit/errors';
import { z } from 'zod';
import type { Bytes } from './archive.ts';

const magic = 'flynn-backup-encrypted ';
const frameBytes = 64 * 1024;
const tagBytes = 16;
const minPassphrase = 8;
const maxHeaderBytes = 1_024;
/** 128 MiB, and some tenths of a second, for each guess. */
const usualCost = 2 ** 17;
const maxMemoryBytes = 512 * 1024 ** 2;

const headerSchema = z.object({
  version: z.literal(1),
  kdf: z.literal('scrypt'),
  // Whoever made the file chose them: no more than could be meant.
  n: z
    .int()
    .min(2 ** 14)
    .max(2 ** 18),
  r: z.int().min(1).max(8),
  p: z.int().min(1).max(4),
  salt: z.string().regex(/^[\w-]{22,64}$/),
});
type Header = z.output<typeof headerSchema>;

const derive = promisify<string, Buffer, number, object, Buffer>(scrypt);

/** As a file has it, which mostly ends with a line end. `invalid` for one that is too short to keep anything. */
export function checkPassphrase(text: string): string {
  const passphrase = text.replace(/\r?\n$/, '');
  if (passphrase.length >= minPassphrase) return passphrase;
  throw new FlynnError(
    'invalid',
    `a passphrase has at least ${minPassphrase} characters: "openssl rand -base64 24" makes one`,
  );
}

/** `cost`: N of scrypt, a power of two from 2^14 to 2^18. */
export async function* encrypted(
  source: Bytes,
  passphrase: string,
  { cost = usualCost }: { cost?: number } = {},
): AsyncGenerator<Uint8Array> {
  const salt = randomBytes(16).toString('base64url');
  const header: Header = { version: 1, kdf: 'scrypt', n: cost, r: 8, p: 1, salt };
  const line = Buffer.from(`${magic}${JSON.stringify(header)}\n`);
  const key = await keyOf(header, passphrase);
  yield line;
  let count = 0;
  for await (const { frame, isLast } of framesOf(source, frameBytes)) {
    const cipher = createCipheriv('aes-256-gcm', key, nonceOf(count, isLast));
    cipher.setAAD(line);
    yield Buffer.concat([cipher.update(frame), cipher.final(), cipher.getAuthTag()]);
    count += 1;
  }
}

/**
 * What was encrypted, or, without a passphrase, the source itself where nothing was. `invalid` without the right
 * passphrase, as soon as a frame is not what was written, and for one in clear where there is a passphrase: whoever can
 * write where backups are kept could put one of their own there, and nothing would tell it apart.
 */
export async function* decrypted(source: Bytes, passphrase: string | undefined): AsyncGenerator<Uint8Array> {
  const iterator = source[Symbol.asyncIterator]();
  try {
    const head = await headOf(iterator);
    if (!head.toString('latin1', 0, magic.length).startsWith(magic)) {
      if (passphrase !== undefined) throw notEncrypted();
      yield head;
      yield* { [Symbol.asyncIterator]: () => iterator };
      return;
    }
    const end = head.indexOf(0x0a);
    if (end < 0 || end > maxHeaderBytes)
      throw new FlynnError('invalid', 'the backup is damaged: its header has no end');
    if (passphrase === undefined) {
      throw new FlynnError('invalid', 'the backup is encrypted: give its passphrase with --passphrase-file FILE');
    }
    const line = head.subarray(0, end + 1);
    const key = await keyOf(parseHeader(line), passphrase);
    const rest = async function* (): AsyncGenerator<Uint8Array> {
      yield head.subarray(end + 1);
      yield* { [Symbol.asyncIterator]: () => iterator };
    };
    let count = 0;
    for await (const { frame, isLast } of framesOf(rest(), frameBytes + tagBytes)) {
      yield opened(frame, { key, line, nonce: nonceOf(count, isLast), isFirst: count === 0 });
      count += 1;
    }
  } finally {
    await iterator.return?.();
  }
}

function notEncrypted(): FlynnError {
  return new FlynnError(
    'invalid',
    'it is not encrypted, and there is a passphrase: it is another file than was meant, or somebody put it there. If it is the right one, leave --passphrase-file and FLYNN_BACKUP_PASSPHRASE out',
  );
}

/** The first bytes, as many as a header may have, unless there are fewer. */
async function headOf(iterator: AsyncIterator<Uint8Array>): Promise<Buffer> {
  let head = Buffer.alloc(0);
  while (head.length <= maxHeaderBytes) {
    const next = await iterator.next();
    if (next.done === true) break;
    head = Buffer.concat([head, next.value]);
  }
  return head;
}

function opened(
  frame: Buffer,
  { key, line, nonce, isFirst }: { key: Buffer; line: Buffer; nonce: Buffer; isFirst: boolean },
): Buffer {
  const why = isFirst ? 'the passphrase is not its own, or the backup is damaged' : 'the backup is damaged or was cut';
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

function keyOf({ n, r, p, salt }: Header, passphrase: string): Promise<Buffer> {
  return derive(passphrase, Buffer.from(salt, 'base64url'), 32, { N: n, r, p, maxmem: maxMemoryBytes });
}

function parseHeader(line: Buffer): Header {
  try {
    return headerSchema.parse(JSON.parse(line.toString('utf8', magic.length)));
  } catch (error) {
    throw new FlynnError('invalid', 'the backup is encrypted in a way that this version of flynn does not know', {
      cause: error,
    });
  }
}
