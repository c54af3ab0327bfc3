/** Since when the volume is there that logs are kept on: what was before lay on another, which is gone. */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { pause } from '@flynn/kit/clock';
import { messageOf } from '@flynn/kit/errors';
import { readJsonFile, writeFileAtomic } from '@flynn/kit/files';
import type { Logger } from '@flynn/kit/log';
import { z } from 'zod';

const writeAgainMs = 60_000;
const volumeSchema = z.object({ bornMs: z.number() });

/**
 * Asked before anything is put there. A volume that a version before has filled, which wrote none, is older than all there is.
 * `isKept` is false if it could not be written: that keeps no line from its place, and is to be tried again with `keepBornMs`.
 */
export async function bornMsOf(
  dir: string,
  { now, log }: { now: number; log: Logger },
): Promise<{ bornMs: number; isKept: boolean }> {
  try {
    const known = await readJsonFile(fileOf(dir), volumeSchema);
    if (known !== undefined) return { bornMs: known.bornMs, isKept: true };
  } catch (error) {
    log.error(`since when the logs are kept here is not known, and begins anew: ${messageOf(error)}`);
  }
  const names = await readdir(dir);
  const bornMs = names.includes('apps') && !names.includes('volume.json') ? 0 : now;
  return { bornMs, isKept: await hasKept(dir, bornMs, log) };
}

/** Resolves once it is written, or when the signal aborts. */
export async function keepBornMs(
  dir: string,
  bornMs: number,
  { signal, log, everyMs = writeAgainMs }: { signal: AbortSignal; log: Logger; everyMs?: number },
): Promise<void> {
  do await pause(everyMs, signal);
  while (!signal.aborted && !(await hasKept(dir, bornMs, log)));
}

async function hasKept(dir: string, bornMs: number, log: Logger): Promise<boolean> {
  try {
    await writeFileAtomic(fileOf(dir), JSON.stringify({ bornMs }));
    return true;
  } catch (error) {
    log.warn(`since when the logs are kept here could not be written, and is tried again: ${messageOf(error)}`);
    return false;
  }
}

function fileOf(dir: string): string {
  return join(dir, 'volume.json');
}
