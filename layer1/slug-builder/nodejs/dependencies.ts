/** Installs an app's packages, anew in each build, from what the build before downloaded. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { FlynnError } from '@flynn/kit/errors';
import type { BuildContext } from '../buildpack.ts';
import { exitReason, runShown } from '../command.ts';
import { keepingBuilt } from './built-packages.ts';
import type { Downloads } from './downloads.ts';
import type { Manager } from './managers.ts';
import { type PackageJson, missingStart, needsPackages, startProgram } from './package-json.ts';
import { exists } from './toolchain.ts';

export type Project = {
  manifest: PackageJson;
  manager: Manager;
  lockfile: string | undefined;
  /** Of programs that work on the app. */
  env: Readonly<Record<string, string>>;
  /** Of the app's own scripts: what they download is not kept with what the install did. */
  scriptEnv: Readonly<Record<string, string>>;
  /** What the next build gets of this one: `env` names its folder. */
  downloads: Downloads;
};

/**
 * Answers whether the cache changed. node_modules are never kept: install scripts, the app's and those of packages, read the app's
 * source, write into its home and change packages in place, and builds do so after them. Only an install makes them what a
 * fresh clone has.
 */
export async function installDependencies(project: Project, context: BuildContext): Promise<boolean> {
  const { out, layout } = context;
  const { manager, downloads } = project;
  if (project.lockfile === undefined && needsPackages(project.manifest)) {
    out.warn(
      `There is no lockfile: each build may get other versions of packages.\nRun "${manager.program} install" and commit the lockfile it writes.`,
    );
  }
  if (await downloads.begin()) out.line('Taking packages that were downloaded before from the cache');
  await runManager(manager.install, project, context, [
    project.lockfile === undefined
      ? ''
      : `that package.json and ${project.lockfile} agree: run "${manager.program} install" and commit both`,
    'that every package exists, and that the registry it comes from can be reached from the cluster',
  ]);
  // A builder of before kept node_modules here.
  const formerDir = join(layout.cacheDir, 'nodejs');
  const hadModules = await exists(formerDir);
  await rm(formerDir, { recursive: true, force: true });
  return (await downloads.end()) || hadModules;
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
  const { prune } = manager;
  const pruned = (): Promise<void> => runManager(prune, project, context, ['that the lockfile is up to date']);
  await (manager.prunesAnew === true ? keepingBuilt(context.layout.appDir, pruned) : pruned());
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
