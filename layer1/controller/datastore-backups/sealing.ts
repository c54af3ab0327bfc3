/**
 * A dump as it is stored: in encrypted frames under a key of its own, which is made of the datastore's key and a salt that the
 * blob begins with.
 */
import { hkdfSync, randomBytes } from 'node:crypto';
import { FlynnError } from '@flynn/kit/errors';
import { z } from 'zod';
import type { Bytes } from '../backup/archive.ts';
import { openFrames, sealFrames, splitLine } from '../backup/frames.ts';

const magic = 'flynn-datastore-backup ';
const keyBytes = 32;

const headerSchema = z.object({ version: z.literal(1), salt: z.string().regex(/^[\w-]{22,64}$/) });

export function newSecret(): string {
  return randomBytes(keyBytes).toString('base64url');
}

export async function* sealedDump(source: Bytes, secret: string): AsyncGenerator<Uint8Array> {
  const salt = randomBytes(16).toString('base64url');
  const line = Buffer.from(`${magic}${JSON.stringify({ version: 1, salt })}\n`);
  yield line;
  yield* sealFrames(source, { key: keyOf(secret, salt), line });
}

/** `invalid` as soon as something is not what was written, at its end too where that was cut off. */
export async function* openedDump(source: Bytes, secret: string): AsyncGenerator<Uint8Array> {
  const iterator = source[Symbol.asyncIterator]();
  try {
    const { line, rest } = await splitLine(iterator, magic);
    if (line === undefined) throw new FlynnError('invalid', 'this blob is no backup of a datastore');
    const { salt } = parseHeader(line);
    const notIts = 'the backup is damaged, or was made with another key than its datastore has';
    yield* openFrames(rest, { key: keyOf(secret, salt), line, notIts });
  } finally {
    await iterator.return?.();
  }
}

function keyOf(secret: string, salt: string): Buffer {
  return Buffer.from(hkdfSync('sha256', Buffer.from(secret, 'base64url'), salt, magic.trim(), keyBytes));
}

function parseHeader(line: Buffer): z.output<typeof headerSchema> {
  try {
    return headerSchema.parse(JSON.parse(line.toString('utf8', magic.length)));
  } catch (error) {
    throw new FlynnError('invalid', 'the backup is stored in a way that this version of flynn does not know', {
      cause: error,
    });
  }
}
