/** Which buildpacks build this app? */
import { join } from 'node:path';
import { FlynnError } from '@flynn/kit/errors';
import { type BuildContext, type Buildpack, nothingCompiled } from './buildpack.ts';
import { fetchBuildpack, withoutPassword } from './buildpack-source.ts';
import { customBuildpack, readBuildpacksFile } from './custom-buildpack.ts';
import { nodejs } from './nodejs/nodejs.ts';
import { exists } from './nodejs/toolchain.ts';
import { staticSite } from './static-site.ts';

/** For apps that need nothing built: what they run is in the repository. */
const procfileOnly: Buildpack = {
  name: 'procfile',
  detect: async ({ layout }) => ((await exists(join(layout.appDir, 'Procfile'))) ? 'Procfile' : undefined),
  compile: async () => nothingCompiled,
};

/** In the order they are tried. */
const builtIns: readonly Buildpack[] = [nodejs, staticSite, procfileOnly];

export type Selection = { buildpack: Buildpack; label: string }[];

/** BUILDPACK_URL, else `.buildpacks`, else the first built-in one that recognizes the app. `invalid` says what was looked for. */
export async function selectBuildpacks(context: BuildContext): Promise<Selection> {
  const { layout, appEnv, out } = context;
  const url = appEnv['BUILDPACK_URL']?.trim();
  if (url !== undefined && url !== '') return [await chosen(url, 'BUILDPACK_URL', context)];
  const listed = await readBuildpacksFile(layout.appDir);
  if (listed.length > 0) {
    out.topic(`Using the ${listed.length} buildpack${listed.length === 1 ? '' : 's'} of .buildpacks`);
    const selection: Selection = [];
    for (const text of listed) selection.push(await chosen(text, '.buildpacks', context));
    return selection;
  }
  for (const buildpack of builtIns) {
    const label = await buildpack.detect(context);
    if (label !== undefined) return [{ buildpack, label }];
  }
  throw new FlynnError(
    'invalid',
    [
      'Unable to select a buildpack. Looked for, in this order:',
      '- the variable BUILDPACK_URL of the app: flynn env set BUILDPACK_URL=https://…',
      '- a file .buildpacks',
      '- package.json (Node.js)',
      '- static.json, Staticfile, index.html or public/index.html (static site)',
      '- Procfile',
      'None is at the top of the repository. Is the file committed?',
    ].join('\n'),
  );
}

async function chosen(text: string, by: string, context: BuildContext): Promise<Selection[number]> {
  const builtIn = builtIns.find(({ name }) => text.replace(/^(?:heroku|flynn)\//, '') === name);
  if (builtIn === undefined) context.out.topic(`Fetching buildpack ${withoutPassword(text)}`);
  const buildpack = builtIn ?? (await customBuildpackOf(text, context));
  const label = await buildpack.detect(context);
  if (label === undefined) {
    throw new FlynnError(
      'invalid',
      `Unable to select a buildpack: ${by} names ${withoutPassword(text)}, whose detection does not recognize this app.`,
    );
  }
  return { buildpack, label };
}

async function customBuildpackOf(text: string, context: BuildContext): Promise<Buildpack> {
  const { dir, name } = await fetchBuildpack(text, context);
  return customBuildpack(dir, name);
}
