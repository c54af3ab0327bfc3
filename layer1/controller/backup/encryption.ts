/**
 * A backup that only who has its passphrase can read: the archive in encrypted frames, under a key that scrypt makes of the
 * passphrase and a salt of the file's own.
 */
import { randomBytes, scrypt } from 'node:crypto';
import { promisify } from 'node:util';
import { FlynnError } from '@flynn/kit/errors';
import { z } from 'zod';
import type { Bytes } from './archive.ts';
import { openFrames, sealFrames, splitLine } from './frames.ts';

const magic = 'flynn-backup-encrypted ';
const minPassphrase = 8;
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
  yield* sealFrames(source, { key, line });
}

/**
 * What was encrypted, or, without a passphrase, the source itself where nothing was. `invalid` without the right
 * passphrase, as soon as a frame is not what was written, and for one in clear where there is a passphrase: whoever can
 * write where backups are kept could put one of their own there, and nothing would tell it apart.
 */
export async function* decrypted(source: Bytes, passphrase: string | undefined): AsyncGenerator<Uint8Array> {
  const iterator = source[Symbol.asyncIterator]();
  try {
    const { line, rest } = await splitLine(iterator, magic);
    if (line === undefined) {
      if (passphrase !== undefined) throw notEncrypted();
      yield* rest;
      return;
    }
    if (passphrase === undefined) {
      throw new FlynnError('invalid', 'the backup is encrypted: give its passphrase with --passphrase-file FILE');
    }
    const key = await keyOf(parseHeader(line), passphrase);
    yield* openFrames(rest, { key, line, notIts: 'the passphrase is not its own, or the backup is damaged' });
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
