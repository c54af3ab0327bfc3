/** How many workers the router before this one had: who takes over from it begins with as many, for it has the same to do. */
import { join } from 'node:path';
import { readTextFile, writeFileAtomic } from '@flynn/kit/files';

/** In the folder that routers of a host share; without one nothing is known. */
export function workersBefore(folder: string | undefined): {
  /** 1 if nobody knows. */
  read: () => Promise<number>;
  write: (count: number) => Promise<void>;
} {
  const file = folder === undefined ? undefined : join(folder, 'workers');
  return {
    async read() {
      const text = file === undefined ? undefined : await readTextFile(file);
      return text !== undefined && /^\d{1,3}\n$/.test(text) ? Number(text) : 1;
    },
    async write(count) {
      if (file !== undefined) await writeFileAtomic(file, `${count}\n`);
    },
  };
}
