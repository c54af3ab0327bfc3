/** Installs an app's packages, or brings back those of the build before when nothing they depend on has changed. */
import { createHash } from 'node:crypto';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { FlynnError } from '@flynn/kit/errors';
import { readTextFile } from '@flynn/kit/files';
import type { BuildContext } from '../buildpack.ts';
import { exitReason, runForOutput, runShown } from '../command.ts';
import { Downloads } from './downloads.ts';
import { hasPnpmPackages } from './lockfiles.ts';
import type { Manager } from './managers.ts';
import { type PackageJson, installScripts, missingStart, needsPackages, startProgram } from './package-json.ts';
import { exists } from './toolchain.ts';

/** Part of the cache's key: higher when what the builder does to node_modules changes. */
const builderVersion = '1';

export type Project = {
  manifest: PackageJson;
  manager: Manager;
  lockfile: string | undefined;
  /** "node-24.1.0 npm-11.0.0": compiled packages belong to one version. */
  tools: string;
  /** Of programs that work on the app. */
  env: Readonly<Record<string, string>>;
  /** Of the app's own scripts: what they download is not kept with what the install did. */
  scriptEnv: Readonly<Record<string, string>>;
  /** What the next build gets of this one: node_modules, or what was downloaded for them, whose folder `env` names. */
  keeps: 'modules' | Downloads;
};

/**
 * Downloads when node_modules at the root are not all there is, or nothing says what should be in them. Yarn 2 and later keep
 * track of node_modules elsewhere, and would not prune what they did not install.
 */
export async function whatToKeep(
  { manifest, manager, lockfile }: Pick<Project, 'manifest' | 'manager' | 'lockfile'>,
  context: BuildContext,
): Promise<Project['keeps']> {
  const { appDir } = context.layout;
  const hasPackages =
    manifest.workspaces !== undefined ||
    (manager.program === 'pnpm' && hasPnpmPackages(await readTextFile(join(appDir, 'pnpm-workspace.yaml'))));
  return lockfile === undefined || hasPackages || manager.isBerry === true ? new Downloads(context) : 'modules';
}

/** Answers whether the cache changed. */
export async function installDependencies(project: Project, context: BuildContext): Promise<boolean> {
  const { layout, out } = context;
  const modulesDir = join(layout.appDir, 'node_modules');
  const cachedDir = join(layout.cacheDir, 'nodejs');
  const keyFile = join(cachedDir, 'key');
  const key = await cacheKey(project, layout.appDir);
  if (key !== undefined && (await readFile(keyFile, 'utf8').catch(() => '')) === key) {
    out.line('Restoring cached node_modules');
    await rm(modulesDir, { recursive: true, force: true });
    await copyTree(join(cachedDir, 'node_modules'), modulesDir, context);
    // The app's own install steps may depend on its source, which is not in the key.
    for (const script of installScripts(project.manifest)) await runScript(script, project, context);
    return false;
  }
  const { manager, keeps } = project;
  if (project.lockfile === undefined && needsPackages(project.manifest)) {
    out.warn(
      `There is no lockfile: each build may get other versions of packages.\nRun "${manager.program} install" and commit the lockfile it writes.`,
    );
  }
  if (keeps !== 'modules') await keeps.begin();
  await runManager(manager.install, project, context, [
    project.lockfile === undefined
      ? ''
      : `that package.json and ${project.lockfile} agree: run "${manager.program} install" and commit both`,
    'that every package exists, and that the registry it comes from can be reached from the cluster',
  ]);
  const hadModules = await exists(cachedDir);
  await rm(cachedDir, { recursive: true, force: true });
  if (keeps !== 'modules') return (await keeps.end()) || hadModules;
  await new Downloads(context).forget();
  if (key === undefined || !(await exists(modulesDir))) return true;
  await mkdir(cachedDir, { recursive: true });
  await copyTree(modulesDir, join(cachedDir, 'node_modules'), context);
  await writeFile(keyFile, key);
  return true;
}

export async function runScript(script: string, project: Project, context: BuildContext): Promise<void> {
  context.out.line(`Running ${script}`);
  await runManager(['run', script], { ...project, env: project.scriptEnv }, context, [
    `that "${project.manager.program} run ${script}" works on a fresh clone, on Linux`,
    'that what it reads is committed, and that variables it needs are set: flynn env set NAME=VALUE',
  ]);
}

/** `web` is the line that the app will be started with, so far as that is known. */
export async function pruneDependencies(
  project: Project,
  web: string | undefined,
  context: BuildContext,
): Promise<void> {
  const { manager, manifest } = project;
  if (Object.keys(manifest.devDependencies).length === 0 || manager.prune === undefined) return;
  if (context.appEnv['NPM_CONFIG_PRODUCTION'] === 'false') {
    context.out.line('Keeping development dependencies: NPM_CONFIG_PRODUCTION is false');
    return;
  }
  context.out.topic('Removing development dependencies');
  const program = startProgram(manifest, web);
  const hasProgram = (): Promise<boolean> => exists(join(context.layout.appDir, 'node_modules/.bin', program ?? ''));
  const hadProgram = await hasProgram();
  await runManager(manager.prune, project, context, ['that the lockfile is up to date']);
  if (program !== undefined && hadProgram && !(await hasProgram())) {
    context.out.warn(missingStart(program, manifest, manager.program));
  }
}

async function runManager(
  args: readonly string[],
  { manager, env }: Project,
  context: BuildContext,
  whatToCheck: readonly string[],
): Promise<void> {
  const { out, signal, layout } = context;
  const code = await runShown([manager.program, ...args], { cwd: layout.appDir, env, signal, out });
  if (code === 0) return;
  const checks = whatToCheck.filter((check) => check !== '').map((check) => `- ${check}`);
  throw new FlynnError(
    'invalid',
    `"${manager.program} ${args.join(' ')}" failed with exit code ${code}${exitReason(code)}: its output is above.\nCheck\n${checks.join('\n')}`,
  );
}

/** Of what node_modules are kept under; undefined when they are not. */
async function cacheKey(project: Project, appDir: string): Promise<string | undefined> {
  if (project.lockfile === undefined || project.keeps !== 'modules') return undefined;
  const hash = createHash('sha256');
  for (const text of [builderVersion, project.tools, JSON.stringify(project.manager)]) hash.update(`${text}\0`);
  for (const file of [project.lockfile, '.npmrc', '.yarnrc', '.yarnrc.yml', 'pnpm-workspace.yaml']) {
    hash.update(await readFile(join(appDir, file)).catch(() => Buffer.alloc(0))).update('\0');
  }
  const { dependencies, devDependencies } = project.manifest;
  hash.update(JSON.stringify([dependencies, devDependencies]));
  return hash.digest('hex');
}

/** By hard links: programs replace files of node_modules, they do not write into them. */
async function copyTree(from: string, to: string, { baseEnv, signal, layout }: BuildContext): Promise<void> {
  const options = { cwd: layout.appDir, env: baseEnv, signal };
  try {
    await runForOutput(['cp', '-al', from, to], options);
  } catch (error) {
    if (signal.aborted) throw error;
    // Hard links do not reach over file systems.
    await rm(to, { recursive: true, force: true });
    await runForOutput(['cp', '-a', from, to], options);
  }
}
