/** What a command is pointed at: a file, or `-` for standard input. */
import { open, readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import type { Io } from './io.ts';

/** Throws `not_found` naming the file when it cannot be read. */
export async function readNamed(io: Io, path: string): Promise<string> {
  if (path === '-') return text(io.stdin);
  try {
    return await readFile(resolve(io.cwd, path), 'utf8');
  } catch (error) {
    throw unreadable(path, error);
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
