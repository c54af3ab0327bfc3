/** What the cache remembers as JSON: it only saves time. */
import { hasCode } from '@flynn/kit/errors';
import { readJsonFile } from '@flynn/kit/files';
import type { z } from 'zod';

/** Undefined where there is no such file, or it is damaged: what is in it is asked for anew. Else as `readJsonFile`. */
export async function readCachedJson<S extends z.ZodType>(file: string, schema: S): Promise<z.output<S> | undefined> {
  try {
    return await readJsonFile(file, schema);
  } catch (error) {
    if (hasCode(error, 'invalid')) return undefined;
    throw error;
  }
}
