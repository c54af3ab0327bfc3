/** Which of several files does the app have? */
import { join } from 'node:path';
import { exists } from './nodejs/toolchain.ts';

/** The first of them. */
export async function firstThere<File extends string>(
  appDir: string,
  files: readonly File[],
): Promise<File | undefined> {
  for (const file of files) if (await exists(join(appDir, file))) return file;
  return undefined;
}
