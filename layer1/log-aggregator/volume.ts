/** Since when the volume is there that logs are kept on: what was before lay on another, which is gone. */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { messageOf } from '@flynn/kit/errors';
import { readJsonFile, writeFileAtomic } from '@flynn/kit/files';
import type { Logger } from '@flynn/kit/log';
import { z } from 'zod';

const volumeSchema = z.object({ bornMs: z.number() });

/** Asked before anything is put there. A volume that a version before has filled, which wrote none, is older than all there is. */
export async function bornMsOf(dir: string, { now, log }: { now: number; log: Logger }): Promise<number> {
  const file = join(dir, 'volume.json');
  try {
    const known = await readJsonFile(file, volumeSchema);
    if (known !== undefined) return known.bornMs;
  } catch (error) {
    log.error(`since when the logs are kept here is not known, and begins anew: ${messageOf(error)}`);
  }
  const names = await readdir(dir);
  const bornMs = names.includes('apps') && !names.includes('volume.json') ? 0 : now;
  await writeFileAtomic(file, JSON.stringify({ bornMs }));
  return bornMs;
}
