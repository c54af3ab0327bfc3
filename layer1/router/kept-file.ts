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

  /** Removes what others began to write and never ended. What cannot be removed is told, and does no harm. */
  async clean(nowMs: number, log: Logger): Promise<void> {
    const folder = dirname(this.path);
    try {
      const half = ((await unlessMissing(readdir(folder))) ?? []).filter(
        (name) => name.startsWith(`${basename(this.path)}.`) && name.endsWith('.tmp'),
      );
      for (const path of half.map((name) => join(folder, name))) {
        const found = await unlessMissing(stat(path));
        if (found !== undefined && nowMs - found.mtimeMs > halfMaxAgeMs) await rm(path, { force: true });
      }
    } catch (error) {
      log.warn({ err: error, folder }, 'what was left half written cannot be removed');
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

/**
 * Writes a file soon after what is in it changed, and now and then to say that it is still so. Of several processes that know the
 * same, one is enough.
 */
export class Keeping {
  #isChanged = false;

  /** At the next opportunity it is written. */
  changed(): void {
    this.#isChanged = true;
  }

  /** Until the signal aborts. What does not work is told once, and tried again. */
  async run(options: {
    file: KeptFile;
    what: string;
    /** Between two writes. */
    restMs: number;
    /** After so long it is written again though nothing changed; default never. */
    renewMs?: number;
    /** Whether what is known now is worth to be kept. */
    isDue: () => boolean;
    lines: () => Iterable<string>;
    log: Logger;
    signal: AbortSignal;
  }): Promise<void> {
    const { file, what, restMs, renewMs = Infinity, isDue, lines, log, signal } = options;
    let isTold = false;
    let writtenMs = performance.now();
    while (!signal.aborted) {
      await pause(restMs, signal);
      const isOld = performance.now() - writtenMs >= renewMs;
      if (signal.aborted || !(this.#isChanged || isOld) || !isDue()) continue;
      this.#isChanged = false;
      try {
        await file.write(lines(), signal);
        writtenMs = performance.now();
        isTold = false;
      } catch (error) {
        this.#isChanged = true;
        if (!isTold && !signal.aborted) log.warn({ err: error }, `${what} cannot be kept for a restart`);
        isTold = true;
      }
    }
  }
}

/** Undefined if it is not there, or not any more. */
async function unlessMissing<T>(found: Promise<T>): Promise<T | undefined> {
  try {
    return await found;
  } catch (error) {
    if (hasErrno(error, 'ENOENT')) return undefined;
    throw error;
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
