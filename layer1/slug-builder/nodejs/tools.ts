/** Node.js, npm and the package manager of an app. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { readTextFile } from '@flynn/kit/files';
import { bunWish } from '../bun/version.ts';
import type { BuildContext, Runtime } from '../buildpack.ts';
import { wishIn } from '../wanted-version.ts';
import { isInRange, npmRangeFor, rangeOf } from './engines.ts';
import { type ChosenManager, isBerryLockfile, pnpmRangeOf } from './lockfiles.ts';
import {
  type Manager,
  bunManager,
  bunPackage,
  npmManager,
  pnpmManager,
  yarnBerryManager,
  yarnClassicManager,
} from './managers.ts';
import type { PackageJson } from './package-json.ts';
import { Toolchain, findImageNpm } from './toolchain.ts';

export type Tools = {
  manager: Manager;
  runtimes: Runtime[];
  /** Where the headers are that came with this Node, where they did. */
  includeDir: string | undefined;
  npmLib: string;
  isCacheChanged: boolean;
};

/** Node itself, for buildpacks that need nothing else of it. */
export async function installNodeOnly(context: BuildContext): Promise<{ runtime: Runtime; isCacheChanged: boolean }> {
  const toolchain = new Toolchain(context, await findImageNpm(context.baseEnv['PATH'] ?? ''), 'static');
  const range = rangeOf('node', undefined);
  const { name, dir } = await toolchain.installNode(await nodeVersion(toolchain, range));
  await toolchain.tidy();
  return { runtime: { name, dir }, isCacheChanged: toolchain.isChanged };
}

async function nodeVersion(toolchain: Toolchain, range: string): Promise<string> {
  const running = process.versions.node;
  return isInRange(running, range) ? running : toolchain.resolve('node', `node-linux-${process.arch}`, range);
}

export async function installTools(
  context: BuildContext,
  manifest: PackageJson,
  chosen: ChosenManager,
): Promise<Tools> {
  const { out } = context;
  const imageNpm = await findImageNpm(context.baseEnv['PATH'] ?? '');
  const toolchain = new Toolchain(context, imageNpm, 'nodejs');

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
    const programs = manager.program === 'bun' ? { bun: 'bin/bun', bunx: 'bin/bun' } : undefined;
    runtimes.push(await toolchain.installTool(manager.program, manager.packageName, managerVersion, programs));
  }
  await toolchain.tidy();
  return { manager, runtimes, includeDir, npmLib: join(npm.dir, 'lib'), isCacheChanged: toolchain.isChanged };
}

async function managerOf(
  { layout }: BuildContext,
  manifest: PackageJson,
  { name, lockfile }: ChosenManager,
  toolchain: Toolchain,
): Promise<{ manager: Manager; version?: string }> {
  const hasLockfile = lockfile !== undefined;
  if (name === 'npm') return { manager: npmManager(hasLockfile) };
  if (name === 'bun') {
    const { range, by } = bunWish(manifest, await wishIn(layout.appDir, '.bun-version', 'bun'));
    return {
      manager: bunManager(hasLockfile),
      version: await toolchain.resolve('Bun', bunPackage(process.arch), range, by),
    };
  }
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
