/**
 * A file of lines that is always whole: it is written beside and renamed, and in portions, so that a hundred thousand lines
 * keep no request waiting. Only its owner may read it.
 */
import { once } from 'node:events';
import { createReadStream, createWriteStream } from 'node:fs';
import { readdir, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { pause } from '@flynn/kit/clock';
import { hasErrno } from '@flynn/kit/errors';
import { shortId } from '@flynn/kit/ids';
import type { Logger } from '@flynn/kit/log';

const halfMaxAgeMs = 60_000;
const portion = 500;

export class KeptFile {
  readonly path: string;

  constructor(path: string) {
    this.path = path;
  }

  /** Removes what others began to write and never ended. */
  async clean(nowMs: number): Promise<void> {
    const folder = dirname(this.path);
    const isHalf = (name: string) => name.startsWith(`${basename(this.path)}.`) && name.endsWith('.tmp');
    const half = await readdir(folder).then(
      (names) => names.filter(isHalf),
      () => [],
    );
    for (const name of half) {
      const path = join(folder, name);
      const mtimeMs = await stat(path).then(
        (found) => found.mtimeMs,
        () => nowMs,
      );
      if (nowMs - mtimeMs > halfMaxAgeMs) await rm(path, { force: true });
    }
  }

  /** Undefined if there is none. The lines have to be read to their end. */
  async read(): Promise<AsyncIterable<string> | undefined> {
    const input = createReadStream(this.path, 'utf8');
    try {
      await once(input, 'open');
    } catch (error) {
      if (hasErrno(error, 'ENOENT')) return undefined;
      throw error;
    }
    return linesOf(input);
  }

  async write(lines: Iterable<string>, signal: AbortSignal): Promise<void> {
    // Processes of other containers, with the same ids, may write at the same time.
    const temporary = `${this.path}.${shortId()}.tmp`;
    const out = createWriteStream(temporary, { flags: 'wx', mode: 0o600, flush: true, signal });
    const failed = once(out, 'error').then(([error]) => Promise.reject(error));
    // Told by what is awaited below, if it happens.
    failed.catch(() => undefined);
    try {
      for (const text of portionsOf(lines)) {
        const isTaken = out.write(text);
        await Promise.race([isTaken ? new Promise(setImmediate) : once(out, 'drain'), failed]);
      }
      out.end();
      await Promise.race([once(out, 'close'), failed]);
      await rename(temporary, this.path);
    } catch (error) {
      out.destroy();
      await rm(temporary, { force: true });
      throw error;
    }
  }
}

/** Writes whenever it is due, until the signal aborts. What does not work is told once, and tried again. */
export async function keepWritten(options: {
  what: string;
  /** Between two writes. */
  restMs: number;
  isDue: () => boolean;
  write: (signal: AbortSignal) => Promise<void>;
  log: Logger;
  signal: AbortSignal;
}): Promise<void> {
  const { what, restMs, isDue, write, log, signal } = options;
  let isTold = false;
  while (!signal.aborted) {
    await pause(restMs, signal);
    if (signal.aborted || !isDue()) continue;
    try {
      await write(signal);
      isTold = false;
    } catch (error) {
      if (!isTold && !signal.aborted) log.warn({ err: error }, `${what} cannot be kept for a restart`);
      isTold = true;
    }
  }
}

async function* linesOf(input: ReturnType<typeof createReadStream>): AsyncGenerator<string> {
  try {
    yield* createInterface({ input, crlfDelay: Infinity });
  } finally {
    input.destroy();
  }
}

function* portionsOf(lines: Iterable<string>): Generator<string> {
  let text = '';
  let count = 0;
  for (const line of lines) {
    text += `${line}\n`;
    count += 1;
    if (count < portion) continue;
    yield text;
    text = '';
    count = 0;
  }
  if (text !== '') yield text;
}
