/** Which folder is the site, where static.json names none? */
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { FlynnError } from '@flynn/kit/errors';
import { exists } from './nodejs/toolchain.ts';

/** What people keep a site in that is not built. */
const committed = ['public', 'dist'] as const;
/** What tools build sites into. To some of them `public` is a folder they read, so it is last. */
const built = ['dist', 'build', 'out', '.output/public', 'dist/client', '_site', 'public'] as const;
/** Nobody's site is in these. */
const passedOver: ReadonlySet<string> = new Set(['node_modules', 'vendor', 'src', 'test', 'tests']);
const deepest = 4;

export type SiteRoot = {
  root: string;
  /** Whether it has a page for `/`. */
  hasIndex: boolean;
};

/**
 * The first usual folder with an index.html. Without one what is there is served as it is, unless the site was built: then it
 * is somewhere else, and the repository would be served in its place: `invalid`, with where an index.html is.
 */
export async function usualRoot(appDir: string, isBuilt: boolean, isIndexNeeded: boolean): Promise<SiteRoot> {
  const folders = isBuilt ? built : committed;
  for (const root of [...folders, '.']) {
    if (await exists(join(appDir, root, 'index.html'))) return { root, hasIndex: true };
  }
  if (isBuilt && isIndexNeeded) throw nowhere(await foldersWithIndex(appDir));
  for (const root of committed) if (await isFolder(join(appDir, root))) return { root, hasIndex: false };
  return { root: '.', hasIndex: false };
}

function nowhere(found: readonly string[]): FlynnError {
  const where =
    found.length === 0
      ? 'Does the build make it? "scripts": {"build": …} of package.json says how; its output is above.'
      : `There is one in ${found.join(', ')}.`;
  const root = found[0] ?? 'FOLDER';
  return new FlynnError(
    'invalid',
    `Nothing says which folder is the site: after the build there is no index.html in ${built.join(', ')}.\n${where}\nName the folder in static.json: {"root": "${root}"}`,
  );
}

async function foldersWithIndex(appDir: string): Promise<string[]> {
  const found: string[] = [];
  const look = async (folder: string, depth: number): Promise<void> => {
    const entries = await readdir(join(appDir, folder), { withFileTypes: true }).catch(() => []);
    if (entries.some((entry) => entry.isFile() && entry.name === 'index.html')) found.push(folder);
    if (depth === deepest) return;
    for (const entry of entries) {
      const isPassedOver = passedOver.has(entry.name) || entry.name.startsWith('.');
      if (entry.isDirectory() && !isPassedOver && found.length < 5) await look(join(folder, entry.name), depth + 1);
    }
  };
  await look('.', 0);
  return found;
}

export async function isFolder(path: string): Promise<boolean> {
  return stat(path).then(
    (status) => status.isDirectory(),
    () => false,
  );
}
