/** Which folder of a repository is the site, and what serves it? */
import { copyFile, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { FlynnError } from '@flynn/kit/errors';
import { readTextFile } from '@flynn/kit/files';
import type { BuildContext, Buildpack, Compiled } from './buildpack.ts';
import { writeProfile } from './nodejs/nodejs.ts';
import { exists } from './nodejs/toolchain.ts';
import { installNodeOnly } from './nodejs/tools.ts';
import { type SiteRoot, isFolder, usualRoot } from './site-root.ts';
import { type Elsewhere, type SiteRules, elsewhereOf } from './static-rules.ts';
import { readSettings } from './static-settings.ts';
import { quoted } from './word.ts';

const signs = ['static.json', 'Staticfile', 'index.html', 'public/index.html'] as const;
const serverFiles = ['static-server.ts', 'static-rules.ts'] as const;

export const staticSite: Buildpack = {
  name: 'static',
  cacheFolders: ['toolchains'],
  async detect({ layout, isBuilt }) {
    // Somebody asks for it by name; where the build put the site is seen to later.
    if (isBuilt) return 'Static site';
    for (const sign of signs) if (await exists(join(layout.appDir, sign))) return 'Static site';
    return undefined;
  },
  compile,
};

async function compile(context: BuildContext): Promise<Compiled> {
  const { layout, out } = context;
  const read = (name: string): Promise<string | undefined> => readTextFile(join(layout.appDir, name));
  const settings = readSettings({ staticJson: await read('static.json'), staticfile: await read('Staticfile') });
  const start = otherStart(settings.rules);
  const { root, hasStart } =
    settings.root === undefined
      ? await usualRoot(layout.appDir, context.isBuilt, start)
      : await namedRoot(layout.appDir, settings.root, start);
  if (!(await isFolder(join(layout.appDir, root)))) {
    throw new FlynnError(
      'invalid',
      `the site's folder ${root} is not in the repository: commit it, or name another as "root"`,
    );
  }
  for (const note of settings.notes) out.warn(note);
  if (!hasStart) out.warn(notFound(root, start));
  const rules = await withFilesThere(join(layout.appDir, root), settings.rules, out);
  out.topic('Installing the file server');
  const { runtime, isCacheChanged } = await installNodeOnly(context);
  out.line(`Node.js ${runtime.name.replace(/^node-/, '')}`);
  out.line(`Serving ${root === '.' ? 'the repository' : root}`);
  const serverDir = join(layout.appDir, '.flynn');
  await mkdir(serverDir, { recursive: true });
  // Beside this program, in the tree and in the image.
  for (const file of serverFiles) await copyFile(join(import.meta.dirname, file), join(serverDir, file));
  await writeFile(join(serverDir, 'static-rules.json'), JSON.stringify(rules));
  await writeProfile(layout.appDir, [runtime]);
  const web = `node --disable-warning=ExperimentalWarning .flynn/static-server.ts ${quoted(root)} .flynn/static-rules.json`;
  return { processTypes: { web }, configVars: {}, runtimes: [runtime], exports: {}, isCacheChanged };
}

/** The same without an error page that is not there; what is missed only when something else is, is told now. */
export async function withFilesThere(folder: string, rules: SiteRules, out: BuildContext['out']): Promise<SiteRules> {
  const { errorPage, routes } = rules;
  for (const { pattern, file } of routes) {
    // A folder is named on purpose, so that nothing is found.
    if (!file.endsWith('/') && !(await exists(join(folder, file))))
      out.warn(`static.json leads ${pattern} to ${file}, and the site has no such file: that is answered as not found`);
  }
  if (errorPage === undefined || (await exists(join(folder, errorPage)))) return rules;
  out.warn(`static.json: "error_page" is left out: the site has no file ${errorPage}. Commit it, or name another`);
  return { ...rules, errorPage: undefined };
}

/** What answers `/`, where it is not index.html. */
function otherStart(rules: SiteRules): Elsewhere | undefined {
  const start = elsewhereOf(rules, '/');
  return start !== undefined && 'file' in start && start.file === '/index.html' ? undefined : start;
}

function notFound(root: string, start: Elsewhere | undefined): string {
  const folder = root === '.' ? 'the repository' : root;
  if (start === undefined || !('url' in start))
    return `There is no index.html in ${folder}: / is answered as not found`;
  return `static.json leads / to ${start.url}, and no usual folder has that page: ${folder} is served. Name the folder that has it as "root"`;
}

async function namedRoot(appDir: string, root: string, start: Elsewhere | undefined): Promise<SiteRoot> {
  return { root, hasStart: start !== undefined || (await exists(join(appDir, root, 'index.html'))) };
}
