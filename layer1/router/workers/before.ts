/** How many workers the router before this one had: who takes over from it begins with as many, for it has the same to do. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { readTextFile, writeFileAtomic } from '@flynn/kit/files';
import type { Logger } from '@flynn/kit/log';
import { tableFile } from '../remembered.ts';

/** In the folder that routers of a host share. A disk that is full or cannot be read costs no more than the number. */
export function workersBefore(
  folder: string | undefined,
  log: Logger,
): {
  /** 1 if there was none. One of a version before left no number: it had `most`. */
  read: (most: number) => Promise<number>;
  write: (count: number) => Promise<void>;
} {
  if (folder === undefined) return { read: async () => 1, write: async () => undefined };
  const file = join(folder, 'workers');
  return {
    async read(most) {
      try {
        const text = await readTextFile(file);
        if (text === undefined) return existsSync(join(folder, tableFile)) ? most : 1;
        return /^\d{1,3}\n$/.test(text) ? Math.max(1, Math.min(Number(text), most)) : 1;
      } catch (error) {
        log.warn({ err: error }, 'how many workers there were cannot be read');
        return 1;
      }
    },
    async write(count) {
      try {
        await writeFileAtomic(file, `${count}\n`);
      } catch (error) {
        log.warn(
          { err: error },
          'how many workers there are cannot be kept: the next router begins with as many as before',
        );
      }
    },
  };
}
