/** What a command is pointed at: a file, or `-` for standard input. */
import { open, readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import type { Io } from './io.ts';

/** Throws `not_found` naming the file when it cannot be read, and `invalid` naming the line where it is not UTF-8. */
export async function readNamed(io: Io, path: string): Promise<string> {
  if (path === '-') return decoded(await buffer(io.stdin), 'standard input');
  let bytes: Buffer;
  try {
    bytes = await readFile(resolve(io.cwd, path));
  } catch (error) {
    throw unreadable(path, error);
  }
  return decoded(bytes, path);
}

/** Every byte, or none: what is not UTF-8 would be something else from here on. */
function decoded(bytes: Uint8Array, name: string): string {
  const text = asUtf8(bytes);
  if (text !== undefined) return text;
  // No byte of a longer character is a line end.
  const lines = Buffer.from(bytes).toString('latin1').split('\n');
  const wrong = lines.findIndex((line) => asUtf8(Buffer.from(line, 'latin1')) === undefined);
  throw new FlynnError(
    'invalid',
    `${name} is not UTF-8 in line ${wrong + 1}\n  convert it, as in: iconv -f LATIN1 -t UTF-8; what is no text is Base64 first`,
  );
}

function asUtf8(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/** The same for what may be larger than memory. */
export async function openNamed(io: Io, path: string): Promise<Readable> {
  if (path === '-') return Readable.from(io.stdin);
  try {
    return (await open(resolve(io.cwd, path))).createReadStream();
  } catch (error) {
    throw unreadable(path, error);
  }
}

function unreadable(path: string, error: unknown): FlynnError {
  return new FlynnError('not_found', `cannot read ${path}: ${messageOf(error)}`, { cause: error });
}
