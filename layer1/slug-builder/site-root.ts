/** Which folder is the site, where static.json names none? */
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { FlynnError } from '@flynn/kit/errors';
import { exists } from './nodejs/toolchain.ts';
import type { Elsewhere } from './static-rules.ts';

/** What people keep a site in that is not built. */
const committed = ['public', 'dist'] as const;
/** What tools build sites into. To some of them `public` is a folder they read, so it is last. */
const built = ['dist', 'build', 'out', '.output/public', 'dist/client', '_site', 'public'] as const;
/** Nobody's site is in these. */
const passedOver: ReadonlySet<string> = new Set(['node_modules', 'vendor', 'src', 'test', 'tests']);
/** Nor in hidden ones, but for what these tools build. */
const hidden: ReadonlySet<string> = new Set(['.vitepress', '.vuepress']);
const deepest = 4;

export type SiteRoot = {
  root: string;
  /** Whether something answers `/`. */
  hasStart: boolean;
};

/**
 * The first usual folder with the page for `/`: index.html, unless `start` says otherwise. Never what is more than the site: of
 * a site that was built the repository has the sources, and is served only where somebody names it. `invalid` says then where an
 * index.html is.
 */
export async function usualRoot(appDir: string, isBuilt: boolean, start: Elsewhere | undefined): Promise<SiteRoot> {
  const withPage = isBuilt ? built : start === undefined ? [...committed, '.'] : [];
  for (const page of pagesOf(start))
    for (const root of withPage) if (await exists(join(appDir, root, page))) return { root, hasStart: true };
  if (!isBuilt || start !== undefined) {
    const hasStart = start !== undefined && !(isBuilt && isOfSite(start));
    for (const root of committed) if (await isFolder(join(appDir, root))) return { root, hasStart };
    if (!isBuilt) return { root: '.', hasStart };
  }
  throw nowhere(await foldersWithIndex(appDir));
}

/** What is given for `/`, or where it leads; the first that there is tells the folder. */
function pagesOf(start: Elsewhere | undefined): string[] {
  if (start !== undefined && 'file' in start) return [start.file];
  if (start === undefined || !isOfSite(start)) return ['index.html'];
  const path = start.url.replace(/[?#].*$/s, '');
  return [...(path.endsWith('/') ? [] : [path, `${path}.html`]), `${path}/index.html`, 'index.html'];
}

/** Whether it leads to a path of the site itself. */
function isOfSite(start: Elsewhere): start is { url: string; status: number } {
  return 'url' in start && /^\/(?!\/)/.test(start.url);
}

function nowhere(found: readonly string[]): FlynnError {
  const [first] = found;
  const where =
    first === undefined
      ? 'Does the build make it? "scripts": {"build": …} of package.json says how; its output is above.'
      : first === '.'
        ? 'There is one at the top of the repository, with the sources: they would be served too.'
        : `There is one in ${found.filter((folder) => folder !== '.').join(', ')}.`;
  return new FlynnError(
    'invalid',
    `Nothing says which folder is the site: after the build there is no index.html in ${built.join(', ')}.\n${where}\nName the folder in static.json: {"root": "${first ?? 'FOLDER'}"}`,
  );
}

/** The repository itself is the last of them. */
async function foldersWithIndex(appDir: string): Promise<string[]> {
  const found: string[] = [];
  const look = async (folder: string, depth: number): Promise<void> => {
    const entries = await readdir(join(appDir, folder), { withFileTypes: true }).catch(() => []);
    const hasIndex = entries.some((entry) => entry.isFile() && entry.name === 'index.html');
    if (hasIndex && folder !== '.') found.push(folder);
    if (depth === deepest) return;
    for (const entry of entries) {
      const isPassedOver = passedOver.has(entry.name) || (entry.name.startsWith('.') && !hidden.has(entry.name));
      if (entry.isDirectory() && !isPassedOver && found.length < 5) await look(join(folder, entry.name), depth + 1);
    }
  };
  await look('.', 0);
  return (await exists(join(appDir, 'index.html'))) ? [...found, '.'] : found;
}

export async function isFolder(path: string): Promise<boolean> {
  return stat(path).then(
    (status) => status.isDirectory(),
    () => false,
  );
}
