/** Which folder of a repository is the site, and what serves it? */
import { copyFile, mkdir, stat } from 'node:fs/promises';
import { join, posix } from 'node:path';
import { FlynnError } from '@flynn/kit/errors';
import { readTextFile } from '@flynn/kit/files';
import { z } from 'zod';
import { parse as parseYaml } from 'yaml';
import type { BuildContext, Buildpack, Compiled } from './buildpack.ts';
import { installNodeOnly, writeProfile } from './nodejs/nodejs.ts';
import { exists } from './nodejs/toolchain.ts';

const signs = ['static.json', 'Staticfile', 'index.html', 'public/index.html'] as const;
const settingsSchema = z.object({ root: z.string().optional() });

export const staticSite: Buildpack = {
  name: 'static',
  async detect({ layout }) {
    for (const sign of signs) if (await exists(join(layout.appDir, sign))) return 'Static site';
    return undefined;
  },
  compile,
};

/** The folder named in static.json or Staticfile: inside the repository, relative, without a slash at the end. */
export function rootOf(settings: {
  staticJson?: string | undefined;
  staticfile?: string | undefined;
}): string | undefined {
  const [file, text] =
    settings.staticJson === undefined ? ['Staticfile', settings.staticfile] : ['static.json', settings.staticJson];
  if (text === undefined) return undefined;
  let parsed: unknown;
  try {
    // YAML is a superset of JSON.
    parsed = parseYaml(text, { logLevel: 'error' }) ?? {};
  } catch (error) {
    throw new FlynnError(
      'invalid',
      `${file} cannot be read: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
  const { success, data } = settingsSchema.safeParse(parsed);
  if (!success)
    throw new FlynnError('invalid', `${file} is not usable: "root" names the folder to serve, as in root: public`);
  if (data.root === undefined) return undefined;
  const root = posix.normalize(data.root).replace(/\/$/, '');
  if (posix.isAbsolute(root) || root === '..' || root.startsWith('../')) {
    throw new FlynnError('invalid', `${file} names the folder ${data.root}, which is not inside the repository`);
  }
  return root;
}

async function compile(context: BuildContext): Promise<Compiled> {
  const { layout, out } = context;
  const read = (name: string): Promise<string | undefined> => readTextFile(join(layout.appDir, name));
  const named = rootOf({ staticJson: await read('static.json'), staticfile: await read('Staticfile') });
  const root = named ?? (await usualRoot(layout.appDir));
  if (!(await isFolder(join(layout.appDir, root)))) {
    throw new FlynnError(
      'invalid',
      `the site's folder ${root} is not in the repository: commit it, or name another as "root"`,
    );
  }
  out.topic('Installing the file server');
  const { runtime, isCacheChanged } = await installNodeOnly(context);
  out.line(`Node.js ${runtime.name.replace(/^node-/, '')}`);
  out.line(`Serving ${root === '.' ? 'the repository' : root}`);
  const serverDir = join(layout.appDir, '.flynn');
  await mkdir(serverDir, { recursive: true });
  // Beside this program, in the tree and in the image.
  await copyFile(join(import.meta.dirname, 'static-server.ts'), join(serverDir, 'static-server.ts'));
  await writeProfile(layout.appDir, [runtime]);
  const web = `node --disable-warning=ExperimentalWarning .flynn/static-server.ts ${quoted(root)}`;
  return { processTypes: { web }, configVars: {}, runtimes: [runtime], exports: {}, isCacheChanged };
}

async function usualRoot(appDir: string): Promise<string> {
  for (const folder of ['public', 'dist']) if (await isFolder(join(appDir, folder))) return folder;
  return '.';
}

async function isFolder(path: string): Promise<boolean> {
  return stat(path).then(
    (status) => status.isDirectory(),
    () => false,
  );
}

function quoted(word: string): string {
  return /^[\w./-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;
}
