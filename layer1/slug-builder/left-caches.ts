/** What the cache has of languages that an app is not built with any more. */
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Buildpack } from './buildpack.ts';

/**
 * Removes what none of the build's buildpacks fills, and answers whether there was any. A buildpack of somebody else's does not
 * say what it fills: beside one all of it stays.
 */
export async function removeLeft(cacheDir: string, buildpacks: readonly Buildpack[]): Promise<boolean> {
  const wanted = new Set<string>();
  for (const { cacheFolders } of buildpacks) {
    if (cacheFolders === undefined) return false;
    for (const folder of cacheFolders) wanted.add(folder);
  }
  const left = (await readdir(cacheDir)).filter((name) => !wanted.has(name));
  for (const name of left) await rm(join(cacheDir, name), { recursive: true, force: true });
  return left.length > 0;
}
