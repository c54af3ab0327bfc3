/** From unpacked source to what a slug consists of. Runs as the app's user, in a process without secrets of the cluster. */
import { chmod, mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type AppJson, appJsonSchema, parseAppJson } from '@flynn/controller/apps/app-json';
import { FlynnError } from '@flynn/kit/errors';
import { readTextFile } from '@flynn/kit/files';
import { envName } from '@flynn/kit/names';
import { z } from 'zod';
import type { Compiled, GivenContext, Layout } from './buildpack.ts';
import { nothingStarts } from './how-to-start.ts';
import { removeLeft } from './left-caches.ts';
import { parseProcfile } from './procfile.ts';
import { selectBuildpacks } from './selection.ts';
import { createIgnore } from './slugignore.ts';
import { sshEnv } from './ssh-key.ts';
import { fetchSubmodules } from './submodules.ts';

/** What the process that compiles tells the one that stores. */
export const slugPlanSchema = z.object({
  buildpack: z.string(),
  processTypes: z.record(z.string(), z.string()),
  /** Names of folders in the runtime folder, each a layer. */
  runtimes: z.array(z.string().regex(/^[a-z0-9][A-Za-z0-9.+-]*$/)),
  isCacheChanged: z.boolean(),
  appJson: appJsonSchema.optional(),
});
export type SlugPlan = z.output<typeof slugPlanSchema>;

/**
 * `cacheIsGood` is told whether the cache has something new that is good whatever becomes of the build. What the next buildpack
 * may leave half done in it is not.
 */
export async function compileSlug(
  given: GivenContext,
  cacheIsGood = (_isGood: boolean): void => undefined,
): Promise<SlugPlan> {
  const STACK = given.appEnv['STACK'] ?? given.baseEnv['STACK'] ?? '';
  const baseEnv = { ...given.baseEnv, STACK, ...(await sshEnv(given)) };
  const start = { ...given, baseEnv, isBuilt: false, keepCache: () => cacheIsGood(true) };
  const { layout, out, appEnv } = start;
  await fetchSubmodules(start);
  // Whatever a file ignores is of the source: what the build makes stays.
  const ignored = await ignoredPaths(layout.appDir);
  // Read first, so that a mistake in it does not cost a whole build.
  await readProcfile(layout.appDir);
  const ofSource = await readAppJson(layout.appDir);
  await writeEnvDir(layout, appEnv);

  const compiled: Compiled[] = [];
  const env: Record<string, string> = { ...start.baseEnv };
  let label = '';
  const selection = await selectBuildpacks(start, ofSource?.buildpacks);
  for (const { buildpack, recognize } of selection) {
    const turn = { ...start, baseEnv: { ...env }, isBuilt: compiled.length > 0 };
    label = await recognize(turn);
    out.topic(`${label} app detected`);
    cacheIsGood(false);
    const result = await buildpack.compile(turn);
    compiled.push(result);
    Object.assign(env, result.exports);
  }

  out.topic('Discovering process types');
  // The last buildpack is the app's own language and has the say over defaults.
  const defaults: Record<string, string> = Object.assign({}, ...compiled.map(({ processTypes }) => processTypes));
  // A buildpack may have written it.
  const declared = await readProcfile(layout.appDir);
  const processTypes = { ...defaults, ...declared };
  if (Object.keys(declared).length > 0) out.line(`Procfile declares types -> ${Object.keys(declared).join(', ')}`);
  const added = Object.keys(defaults).filter((type) => declared[type] === undefined);
  if (added.length > 0) out.line(`Default types for ${label} -> ${added.join(', ')}`);
  if (Object.keys(processTypes).length === 0) {
    throw await nothingStarts(layout.appDir, selection.at(-1)?.buildpack.name);
  }

  // As with the Procfile: of a repository of several apps a buildpack brings that of the one to the top.
  const appJson = await readAppJson(layout.appDir);
  await writeDefaults(layout.appDir, Object.assign({}, ...compiled.map(({ configVars }) => configVars)));
  for (const path of ignored) await rm(join(layout.appDir, path), { recursive: true, force: true });
  const isAnyLeft = await removeLeft(
    layout.cacheDir,
    selection.map(({ buildpack }) => buildpack),
  );
  return {
    buildpack: selection.map(({ buildpack }) => buildpack.name).join(', '),
    processTypes,
    runtimes: [...new Set(compiled.flatMap(({ runtimes }) => runtimes.map(({ name }) => name)))],
    isCacheChanged: isAnyLeft || compiled.some(({ isCacheChanged }) => isCacheChanged),
    ...(appJson === undefined ? {} : { appJson }),
  };
}

async function readProcfile(appDir: string): Promise<Record<string, string>> {
  const text = await readTextFile(join(appDir, 'Procfile'));
  return text === undefined ? {} : parseProcfile(text);
}

async function readAppJson(appDir: string): Promise<AppJson | undefined> {
  const text = await readTextFile(join(appDir, 'app.json'));
  return text === undefined ? undefined : parseAppJson(text);
}

async function ignoredPaths(appDir: string): Promise<string[]> {
  const text = await readTextFile(join(appDir, '.slugignore'));
  if (text === undefined) return [];
  const isIgnored = createIgnore(text);
  const paths: string[] = [];
  const visit = async (folder: string): Promise<void> => {
    for (const entry of await readdir(join(appDir, folder), { withFileTypes: true })) {
      const path = folder === '' ? entry.name : `${folder}/${entry.name}`;
      if (isIgnored(path, entry.isDirectory())) paths.push(path);
      else if (entry.isDirectory()) await visit(path);
    }
  };
  await visit('');
  return paths;
}

async function writeEnvDir({ envDir }: Layout, env: Readonly<Record<string, string>>): Promise<void> {
  await mkdir(envDir, { recursive: true });
  for (const [name, value] of Object.entries(env)) await writeFile(join(envDir, name), value, { mode: 0o600 });
}

/** Defaults of buildpacks, in a script that the slug runner sources before all others. */
async function writeDefaults(appDir: string, configVars: Readonly<Record<string, string>>): Promise<void> {
  const lines = Object.entries(configVars).map(([name, value]) => {
    if (!envName.safeParse(name).success) {
      throw new FlynnError('invalid', `the buildpack's release has a variable called "${name}", which cannot be one`);
    }
    return `[ -n "\${${name}+set}" ] || export ${name}='${value.replaceAll("'", String.raw`'\''`)}'\n`;
  });
  if (lines.length === 0) return;
  const dir = join(appDir, '.profile.d');
  await mkdir(dir, { recursive: true });
  await writeFile(join(dir, '000-defaults.sh'), lines.join(''));
  await chmod(join(dir, '000-defaults.sh'), 0o644);
}
