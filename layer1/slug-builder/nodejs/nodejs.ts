/** The Node.js buildpack. */
import { mkdir, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { readTextFile } from '@flynn/kit/files';
import type { BuildContext, Buildpack, Compiled, Runtime } from '../buildpack.ts';
import { buildEnv } from '../environment.ts';
import { parseProcfile } from '../procfile.ts';
import { slugDir } from '../runtime-env.ts';
import { type Project, installDependencies, pruneDependencies, runScript } from './dependencies.ts';
import { Downloads, apartFromStore } from './downloads.ts';
import { isInRange, npmRangeFor, rangeOf } from './engines.ts';
import { headerSettings } from './headers.ts';
import { chooseManager, isBerryLockfile, pnpmRangeOf } from './lockfiles.ts';
import { type Manager, npmManager, pnpmManager, yarnBerryManager, yarnClassicManager } from './managers.ts';
import { type PackageJson, buildScript, parsePackageJson, startCommand } from './package-json.ts';
import { Toolchain, exists, findImageNpm } from './toolchain.ts';

/** Where runtimes are when the slug runs. */
const runtimeRoot = '/opt/flynn';
/** The pinned pnpm is the one that is there: pnpm 11 and later would ask the registry for it, at each start of an app too. */
const pinIgnored = 'ignore';

export const nodejs: Buildpack = {
  name: 'nodejs',
  detect: async ({ layout }) => ((await exists(join(layout.appDir, 'package.json'))) ? 'Node.js' : undefined),
  compile,
};

async function compile(context: BuildContext): Promise<Compiled> {
  const { layout, out } = context;
  const manifest = parsePackageJson(await readFile(join(layout.appDir, 'package.json'), 'utf8'));
  const files = await readdir(layout.appDir);
  const chosen = chooseManager(files, manifest.packageManager);

  out.topic('Installing Node.js');
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
  const web = startCommand(manifest, tools.manager.program, files.includes('server.js'));
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

type Tools = {
  manager: Manager;
  runtimes: Runtime[];
  /** Where the headers are that came with this Node, where they did. */
  includeDir: string | undefined;
  npmLib: string;
  isCacheChanged: boolean;
};
type Chosen = ReturnType<typeof chooseManager>;

/** Node itself, for buildpacks that need nothing else of it. */
export async function installNodeOnly(context: BuildContext): Promise<{ runtime: Runtime; isCacheChanged: boolean }> {
  const toolchain = new Toolchain(context, await findImageNpm(context.baseEnv['PATH'] ?? ''));
  const range = rangeOf('node', undefined);
  const { name, dir } = await toolchain.installNode(await nodeVersion(toolchain, range));
  await toolchain.tidy();
  return { runtime: { name, dir }, isCacheChanged: toolchain.isChanged };
}

async function nodeVersion(toolchain: Toolchain, range: string): Promise<string> {
  const running = process.versions.node;
  return isInRange(running, range) ? running : toolchain.resolve('node', `node-linux-${process.arch}`, range);
}

async function installTools(context: BuildContext, manifest: PackageJson, chosen: Chosen): Promise<Tools> {
  const { out } = context;
  const imageNpm = await findImageNpm(context.baseEnv['PATH'] ?? '');
  const toolchain = new Toolchain(context, imageNpm);

  const range = rangeOf('node', manifest.engines['node']);
  const version = await nodeVersion(toolchain, range);
  out.line(`engines.node ${manifest.engines['node'] ?? `is not set, taking ${range}`}: Node.js ${version}`);
  const { includeDir, ...node } = await toolchain.installNode(version);

  const wantsNpm = manifest.engines['npm'];
  const npmRange = rangeOf('npm', wantsNpm);
  const isImageNpmFine = isInRange(imageNpm.version, npmRange) && isInRange(version, imageNpm.nodeRange);
  const npmVersion = isImageNpmFine
    ? imageNpm.version
    : await toolchain.resolve('npm', 'npm', wantsNpm === undefined ? npmRangeFor(version) : npmRange);
  out.line(`npm ${npmVersion}`);
  const npm = await toolchain.installTool('npm', 'npm', npmVersion);
  const runtimes: Runtime[] = [node, npm];

  const { manager, version: managerVersion } = await managerOf(context, manifest, chosen, toolchain);
  if (managerVersion !== undefined && manager.packageName !== undefined) {
    out.line(`${manager.program} ${managerVersion}`);
    runtimes.push(await toolchain.installTool(manager.program, manager.packageName, managerVersion));
  }
  await toolchain.tidy();
  return { manager, runtimes, includeDir, npmLib: join(npm.dir, 'lib'), isCacheChanged: toolchain.isChanged };
}

async function managerOf(
  { layout }: BuildContext,
  manifest: PackageJson,
  { name, lockfile }: Chosen,
  toolchain: Toolchain,
): Promise<{ manager: Manager; version?: string }> {
  const hasLockfile = lockfile !== undefined;
  if (name === 'npm') return { manager: npmManager(hasLockfile) };
  const text = hasLockfile ? await readFile(join(layout.appDir, lockfile), 'utf8') : '';
  const declared = /^(?:yarn|pnpm)@([^+]+)/.exec(manifest.packageManager ?? '')?.[1];
  const wanted = declared ?? manifest.engines[name];
  if (name === 'pnpm') {
    const version = await toolchain.resolve(
      'pnpm',
      'pnpm',
      wanted === undefined ? pnpmRangeOf(text) : rangeOf('pnpm', wanted),
    );
    return { manager: pnpmManager(hasLockfile), version };
  }
  const settings = (await readTextFile(join(layout.appDir, '.yarnrc.yml'))) ?? '';
  const isBerry = isBerryLockfile(text) || (declared !== undefined && !declared.startsWith('1.'));
  const yarnPath = /^yarnPath:\s*["']?([^"'\s]+)/m.exec(settings)?.[1];
  if (isBerry && yarnPath !== undefined) {
    // Any yarn hands over to the one the repository brings.
    const version = await toolchain.resolve('yarn', 'yarn', '^1.22.0');
    const brought = /yarn-(\d[^/]*)\.[cm]?js$/.exec(yarnPath)?.[1];
    return { manager: { ...yarnBerryManager(brought ?? '3.0.0', hasLockfile), packageName: 'yarn' }, version };
  }
  const packageName = isBerry ? '@yarnpkg/cli-dist' : 'yarn';
  const range = rangeOf('yarn', wanted ?? (isBerry ? '^4.0.0' : '^1.22.0'));
  const version = await toolchain.resolve('yarn', packageName, range);
  return { manager: isBerry ? yarnBerryManager(version, hasLockfile) : yarnClassicManager(hasLockfile), version };
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
