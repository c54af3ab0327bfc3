/** What the cache has of languages that an app is not built with any more. */
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Buildpack } from './buildpack.ts';

const removeAll = (path: string): Promise<void> => rm(path, { recursive: true, force: true });

/**
 * Removes what none of the build's buildpacks fills, and answers whether any of it went. A buildpack of somebody else's does not
 * say what it fills: beside one all of it stays. What such a one left read-only, as Go leaves what it fetches, stays, too: it
 * takes room, and fails no build.
 */
export async function removeLeft(
  cacheDir: string,
  buildpacks: readonly Buildpack[],
  remove: (path: string) => Promise<void> = removeAll,
): Promise<boolean> {
  const wanted = new Set<string>();
  for (const { cacheFolders } of buildpacks) {
    if (cacheFolders === undefined) return false;
    for (const folder of cacheFolders) wanted.add(folder);
  }
  const left = (await readdir(cacheDir)).filter((name) => !wanted.has(name));
  const gone = await Promise.allSettled(left.map((name) => remove(join(cacheDir, name))));
  return gone.some(({ status }) => status === 'fulfilled');
}
