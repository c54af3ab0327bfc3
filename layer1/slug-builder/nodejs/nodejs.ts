/** The Node.js buildpack, and what it has in common with that of Bun. */
import { mkdir, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { readTextFile } from '@flynn/kit/files';
import type { BuildContext, Buildpack, Compiled, Runtime } from '../buildpack.ts';
import { buildEnv } from '../environment.ts';
import { parseProcfile } from '../procfile.ts';
import { slugDir } from '../runtime-env.ts';
import { type Project, installDependencies, pruneDependencies, runScript } from './dependencies.ts';
import { Downloads, apartFromStore } from './downloads.ts';
import { headerSettings } from './headers.ts';
import { type ChosenManager, chooseManager } from './lockfiles.ts';
import type { Manager } from './managers.ts';
import { type PackageJson, buildScript, parsePackageJson, startCommand } from './package-json.ts';
import { exists } from './toolchain.ts';
import { type Tools, installTools } from './tools.ts';

/** Where runtimes are when the slug runs. */
const runtimeRoot = '/opt/flynn';
/** The pinned pnpm is the one that is there: pnpm 11 and later would ask the registry for it, at each start of an app too. */
const pinIgnored = 'ignore';

export const nodejs: Buildpack = {
  name: 'nodejs',
  cacheFolders: ['toolchains', 'nodejs', 'nodejs-downloads'],
  detect: async ({ layout }) => ((await exists(join(layout.appDir, 'package.json'))) ? 'Node.js' : undefined),
  compile,
};

async function compile(context: BuildContext): Promise<Compiled> {
  const { appDir } = context.layout;
  const manifest = parsePackageJson(await readFile(join(appDir, 'package.json'), 'utf8'));
  const files = await readdir(appDir);
  const chosen = chooseManager(files, manifest.packageManager);
  context.out.topic('Installing Node.js');
  return compileProject(context, manifest, chosen, async () =>
    startCommand(manifest, chosen.name, files.includes('server.js')),
  );
}

/** `start` answers the command line of `web` where there is no Procfile: asked once the app is built. */
export async function compileProject(
  context: BuildContext,
  manifest: PackageJson,
  chosen: ChosenManager,
  start: () => Promise<string | undefined>,
): Promise<Compiled> {
  const { layout, out } = context;
  const tools = await installTools(context, manifest, chosen);
  const downloads = new Downloads(context);
  const env = {
    ...projectEnv(context, tools, downloads.dir),
    ...(await headerSettings({ ...tools, program: tools.manager.program })),
  };
  const project: Project = {
    manifest,
    manager: tools.manager,
    lockfile: chosen.lockfile,
    downloads,
    env,
    scriptEnv: { ...env, ...downloadFolders(tools.manager, layout.scratchDir) },
  };
  out.topic(`Installing dependencies with ${tools.manager.program}`);
  const hadYarnCache = await exists(join(layout.appDir, '.yarn/cache'));
  if (manifest.scripts['heroku-prebuild'] !== undefined) await runScript('heroku-prebuild', project, context);
  const isCacheChanged = (await installDependencies(project, context)) || tools.isCacheChanged;
  if (isCacheChanged) context.keepCache();
  const script = buildScript(manifest);
  if (script !== undefined) {
    out.topic('Building');
    await runScript(script, project, context);
  }
  const web = await start();
  const procfile = parseProcfile((await readTextFile(join(layout.appDir, 'Procfile'))) ?? '');
  await pruneDependencies(project, procfile['web'] ?? web, context);
  // Yarn's archives are needed at run time only where they stand in for node_modules.
  if (!hadYarnCache && !(await exists(join(layout.appDir, '.pnp.cjs')))) {
    await rm(join(layout.appDir, '.yarn/cache'), { recursive: true, force: true });
  }
  await writeProfile(layout.appDir, tools.runtimes);
  return {
    processTypes: web === undefined ? {} : { web },
    configVars: {},
    runtimes: tools.runtimes.map(({ name, dir }) => ({ name, dir })),
    exports: { PATH: pathOf(tools.runtimes, layout.appDir, context.baseEnv) },
    isCacheChanged,
  };
}

function projectEnv(context: BuildContext, { manager, runtimes }: Tools, downloadDir: string): Record<string, string> {
  const { layout } = context;
  const scratch = (name: string): string => join(layout.scratchDir, name);
  return {
    NODE_ENV: 'production',
    ...yarnSettings(context.baseEnv),
    ...buildEnv(context),
    PATH: pathOf(runtimes, layout.appDir, context.baseEnv),
    CI: 'true',
    ...downloadFolders(manager, downloadDir),
    YARN_ENABLE_GLOBAL_CACHE: 'false',
    YARN_ENABLE_TELEMETRY: 'false',
    pnpm_config_pm_on_fail: pinIgnored,
    // Packages have to be part of the slug, not links to what is kept for the next build.
    BUN_INSTALL_GLOBAL_STORE: '0',
    XDG_CACHE_HOME: scratch('cache'),
    XDG_DATA_HOME: manager.program === 'pnpm' ? join(downloadDir, 'data') : scratch('data'),
    ...apartFromStore(runtimes),
    XDG_STATE_HOME: scratch('state'),
  };
}

/** Without pnpm's store: of that there is one for all that is done to an app. */
function downloadFolders({ isBerry }: Manager, dir: string): Record<string, string> {
  return {
    npm_config_cache: join(dir, 'npm'),
    // To Yarn 2 and later it would mean the archives that Plug'n'Play reads at run time: those have to be part of the slug.
    ...(isBerry ? {} : { YARN_CACHE_FOLDER: join(dir, 'yarn') }),
    YARN_GLOBAL_FOLDER: join(dir, 'yarn-global'),
    BUN_INSTALL_CACHE_DIR: join(dir, 'bun'),
  };
}

/** Yarn 2 and later do not read what everybody else does. */
function yarnSettings(env: Readonly<Record<string, string>>): Record<string, string> {
  const of = (name: string): string | undefined => env[name] ?? env[name.toUpperCase()];
  const settings = {
    YARN_NPM_REGISTRY_SERVER: of('npm_config_registry'),
    YARN_HTTP_PROXY: of('http_proxy'),
    YARN_HTTPS_PROXY: of('https_proxy'),
  };
  return Object.fromEntries(
    Object.entries(settings).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  );
}

function pathOf(runtimes: readonly Runtime[], appDir: string, env: Readonly<Record<string, string>>): string {
  return [...runtimes.map(({ dir }) => join(dir, 'bin')), env['PATH'], join(appDir, 'node_modules/.bin')].join(':');
}

export async function writeProfile(appDir: string, runtimes: readonly Runtime[]): Promise<void> {
  const path = runtimes.map(({ name }) => `${runtimeRoot}/${name}/bin`).join(':');
  const options = await plugAndPlayOptions(appDir);
  const lines = [
    `export PATH="${path}:$PATH:/app/node_modules/.bin"`,
    'export NODE_ENV="${NODE_ENV:-production}"',
    ...(runtimes.some(({ name }) => name.startsWith('pnpm-'))
      ? [`export pnpm_config_pm_on_fail="\${pnpm_config_pm_on_fail-${pinIgnored}}"`]
      : []),
    ...(options.length === 0 ? [] : [`export NODE_OPTIONS="${options.join(' ')}\${NODE_OPTIONS:+ $NODE_OPTIONS}"`]),
    '',
  ];
  await mkdir(join(appDir, '.profile.d'), { recursive: true });
  await writeFile(join(appDir, '.profile.d/nodejs.sh'), lines.join('\n'));
}

/** As "yarn run" does it, for every Node of the app: without them none finds a package of Yarn's Plug'n'Play. */
async function plugAndPlayOptions(appDir: string): Promise<string[]> {
  const [isThere, hasLoader] = await Promise.all(
    ['.pnp.cjs', '.pnp.loader.mjs'].map((file) => exists(join(appDir, file))),
  );
  if (isThere !== true) return [];
  return [
    `--require ${slugDir}/.pnp.cjs`,
    ...(hasLoader === true ? [`--experimental-loader file://${slugDir}/.pnp.loader.mjs`] : []),
  ];
}
