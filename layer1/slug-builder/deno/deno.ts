/** The Deno buildpack. What an app imports is fetched while it is built, and is part of its slug. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { readTextFile } from '@flynn/kit/files';
import type { BuildContext, Buildpack, Compiled, Runtime } from '../buildpack.ts';
import { buildEnv } from '../environment.ts';
import { firstThere } from '../first-there.ts';
import { KeptFolder, keyOf } from '../kept-folder.ts';
import { buildScript, parsePackageJson } from '../nodejs/package-json.ts';
import { Toolchain, exists, findImageNpm } from '../nodejs/toolchain.ts';
import { parseProcfile } from '../procfile.ts';
import { atRunTime, profileOf, slugDir } from '../runtime-env.ts';
import { runTool } from '../tool-run.ts';
import { wishIn } from '../wanted-version.ts';
import { type Tasks, checkDenoVersion, denoStartCommand, filesIn, parseDenoConfig } from './config.ts';
import { registriesAtRunTime, registriesOf } from './registries.ts';

const configs = ['deno.json', 'deno.jsonc'] as const;
const signs = [...configs, 'deno.lock', 'package.json'] as const;
const usualFiles = ['main.ts', 'main.tsx', 'main.js', 'main.mjs', 'server.ts', 'server.js', 'index.ts'] as const;
/** In the app: what was fetched has to be there when it runs. */
const fetchedName = '.deno';
/** In builds and when the app runs. By the last V8 keeps to the memory that there is for it. */
const settings = { DENO_NO_UPDATE_CHECK: '1', DENO_NO_PROMPT: '1', DENO_USE_CGROUPS: '1' };

export const deno: Buildpack = {
  name: 'deno',
  cacheFolders: ['toolchains', 'deno'],
  async detect({ layout }) {
    return (await firstThere(layout.appDir, signs)) === undefined ? undefined : 'Deno';
  },
  compile,
};

async function compile(context: BuildContext): Promise<Compiled> {
  const { layout, out, baseEnv } = context;
  const tasks = await tasksOf(layout.appDir);
  out.topic('Installing Deno');
  const { runtime, isChanged } = await installDeno(context);
  const PATH = `${join(runtime.dir, 'bin')}:${baseEnv['PATH'] ?? ''}`;
  const env = {
    DENO_TLS_CA_STORE: 'system,mozilla',
    ...buildEnv(context),
    ...registriesOf(buildEnv(context)),
    ...settings,
    PATH,
    NO_COLOR: '1',
    DENO_DIR: join(layout.appDir, fetchedName),
  };
  const isKeptNew = await install(context, env, runtime);
  if (tasks['build'] !== undefined) {
    out.topic('Building');
    out.line('Running build');
    await run(['task', 'build'], context, env, [
      'that "deno task build" works on a fresh clone, on Linux',
      'that what it reads is committed, and that variables it needs are set: flynn env set NAME=VALUE',
    ]);
  }
  const web = denoStartCommand(tasks, await firstThere(layout.appDir, usualFiles));
  await fetchImports(context, env, [web ?? '', tasks['start']?.command ?? '']);
  await writeProfile(context, runtime);
  return {
    processTypes: web === undefined ? {} : { web },
    configVars: {},
    runtimes: [runtime],
    exports: { PATH },
    isCacheChanged: isChanged || isKeptNew,
  };
}

async function tasksOf(appDir: string): Promise<Tasks> {
  const ofPackage = await readTextFile(join(appDir, 'package.json'));
  const manifest = parsePackageJson(ofPackage ?? '{}');
  const { start } = manifest.scripts;
  const build = buildScript(manifest) === 'build' ? manifest.scripts['build'] : undefined;
  // To Deno these are tasks as well.
  const scripts = Object.entries({ build, start }).flatMap(([name, command]) =>
    command === undefined ? [] : [[name, { command, isAll: false }] as const],
  );
  const file = await firstThere(appDir, configs);
  const text = file === undefined ? undefined : await readTextFile(join(appDir, file));
  return { ...Object.fromEntries(scripts), ...(text === undefined ? {} : parseDenoConfig(text, file ?? '')) };
}

async function installDeno(context: BuildContext): Promise<{ runtime: Runtime; isChanged: boolean }> {
  const toolchain = new Toolchain(context, await findImageNpm(context.baseEnv['PATH'] ?? ''), 'deno');
  const wish = await wishIn(context.layout.appDir, '.deno-version', 'deno');
  const packageName = `@deno/linux-${process.arch}-glibc`;
  const version = await toolchain.resolve('Deno', packageName, wish?.version ?? '*', wish?.file);
  context.out.line(
    `${wish === undefined ? 'There is no .deno-version' : `.deno-version says ${wish.version}`}: Deno ${version}`,
  );
  checkDenoVersion(version);
  const { name, dir } = await toolchain.installTool('deno', packageName, version, { deno: 'deno' });
  await toolchain.tidy();
  return { runtime: { name, dir }, isChanged: toolchain.isChanged };
}

/** Answers whether something else is kept. Without a lockfile nothing is: Deno would take it for the newest there is. */
async function install(
  context: BuildContext,
  env: Readonly<Record<string, string>>,
  runtime: Runtime,
): Promise<boolean> {
  const { appDir } = context.layout;
  const { out } = context;
  const read = async (file: string): Promise<string> => (await readTextFile(join(appDir, file))) ?? '';
  const lock = await readTextFile(join(appDir, 'deno.lock'));
  const kept = new KeptFolder(context, 'deno', env['DENO_DIR'] ?? '');
  const key = keyOf(
    runtime.name,
    lock ?? '',
    await read('deno.json'),
    await read('deno.jsonc'),
    await read('package.json'),
  );
  out.topic('Installing dependencies with deno');
  if (lock === undefined)
    out.warn(
      'There is no deno.lock: each build may get other versions of packages.\nRun "deno install" and commit the lockfile it writes.',
    );
  const isThere = lock !== undefined && (await kept.restore(key));
  if (isThere) out.line('Taking what was fetched before from the cache');
  await run(['install', ...(lock === undefined ? [] : ['--frozen'])], context, env, [
    'that the lockfile is up to date: run "deno install" and commit deno.lock',
    ...reachable,
  ]);
  if (isThere || lock === undefined) return false;
  await kept.keep(key);
  return true;
}

/** What files import that are named by no configuration: "npm:…", "jsr:…" and addresses. */
async function fetchImports(
  context: BuildContext,
  env: Readonly<Record<string, string>>,
  lines: readonly string[],
): Promise<void> {
  const { appDir } = context.layout;
  const procfile = parseProcfile((await readTextFile(join(appDir, 'Procfile'))) ?? '');
  const files: string[] = [];
  for (const file of filesIn([...Object.values(procfile), ...lines]))
    if (await exists(join(appDir, file))) files.push(file);
  if (files.length > 0)
    await run(['cache', ...files], context, env, ['that all files it imports are committed', ...reachable]);
}

const reachable = [
  'that every package exists, and that the registries (of npm, jsr.io) can be reached from the cluster',
];

async function run(
  args: readonly string[],
  context: BuildContext,
  env: Readonly<Record<string, string>>,
  check: readonly string[],
): Promise<void> {
  await runTool(['deno', ...args], { context, env, called: `deno ${args.join(' ')}`, check });
}

async function writeProfile(context: BuildContext, { name }: Runtime): Promise<void> {
  const values = {
    ...settings,
    DENO_DIR: `${slugDir}/${fetchedName}`,
    ...registriesAtRunTime(buildEnv(context)),
  };
  const dir = join(context.layout.appDir, '.profile.d');
  await mkdir(dir, { recursive: true });
  await writeFile(join(dir, 'deno.sh'), profileOf({ paths: { PATH: [`${atRunTime(name)}/bin`] }, values }));
}
