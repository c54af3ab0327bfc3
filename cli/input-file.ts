/** Text that a command is pointed at: a file, or `-` for standard input. */
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import type { Io } from './io.ts';

/** Throws `not_found` naming the file when it cannot be read. */
export async function readNamed(io: Io, path: string): Promise<string> {
  if (path === '-') return text(io.stdin);
  try {
    return await readFile(resolve(io.cwd, path), 'utf8');
  } catch (error) {
    throw new FlynnError('not_found', `cannot read ${path}: ${messageOf(error)}`, { cause: error });
  }
}
