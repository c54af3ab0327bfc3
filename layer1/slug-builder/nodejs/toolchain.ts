/**
 * Node and package managers, as packages of the npm registry. npm itself fetches them, so registries, proxies, tokens,
 * certificates and integrity checks are whatever they are for npm on this machine.
 */
import {
  access,
  chmod,
  copyFile,
  cp,
  mkdir,
  readFile,
  readdir,
  realpath,
  rename,
  rm,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { basename, dirname, join, relative } from 'node:path';
import { FlynnError, hasCode, messageOf } from '@flynn/kit/errors';
import { readTextFile } from '@flynn/kit/files';
import { z } from 'zod';
import type { BuildContext, Runtime } from '../buildpack.ts';
import { readCachedJson } from '../cached-json.ts';
import { runForOutput } from '../command.ts';
import { newestInRange } from './engines.ts';
import { type NativePackage, nativePackage } from './native-package.ts';

const listIsFreshMs = 12 * 3_600_000;

const versionListSchema = z.object({ checkedAtMs: z.number(), versions: z.array(z.string()) });
/** By buildpack, the files that its last build used. */
const usesSchema = z.record(z.string(), z.array(z.string()));
const packSchema = z.array(z.object({ filename: z.string() })).min(1);
const manifestSchema = z.object({
  version: z.string(),
  bin: z.union([z.string(), z.record(z.string(), z.string())]).default({}),
  engines: z.object({ node: z.string().optional() }).optional(),
  optionalDependencies: z.record(z.string(), z.string()).default({}),
});

/** The npm of the builder's image. */
export type ImageNpm = { dir: string; cli: string; version: string; nodeRange: string };

export class Toolchain {
  readonly #context: BuildContext;
  readonly #npm: ImageNpm;
  readonly #by: string;
  readonly #storeDir: string;
  readonly #used = new Set<string>();
  #isChanged = false;

  /** `by`: the buildpack whose it is. */
  constructor(context: BuildContext, npm: ImageNpm, by: string) {
    this.#context = context;
    this.#npm = npm;
    this.#by = by;
    this.#storeDir = join(context.layout.cacheDir, 'toolchains');
  }

  /** Whether the cache has something new. */
  get isChanged(): boolean {
    return this.#isChanged;
  }

  /**
   * The newest version in a range. The registry's list is asked for twice a day at most; an old one does when it is away. `by` is
   * who asks for the range.
   */
  async resolve(tool: string, packageName: string, range: string, by?: string): Promise<string> {
    const file = join(this.#storeDir, `versions-${packageName.replaceAll('/', '+')}.json`);
    const known = await readCachedJson(file, versionListSchema);
    this.#used.add(file);
    if (known !== undefined && this.#context.nowMs - known.checkedAtMs < listIsFreshMs) {
      return newestInRange(tool, range, known.versions, by);
    }
    let versions: string[];
    try {
      const answer: unknown = JSON.parse(await this.#askNpm(['view', packageName, 'versions', '--json']));
      versions = z.array(z.string()).parse(typeof answer === 'string' ? [answer] : answer);
    } catch (error) {
      if (hasCode(error, 'cancelled')) throw error;
      if (known !== undefined) return newestInRange(tool, range, known.versions, by);
      throw new FlynnError(
        'unavailable',
        `could not ask the npm registry which versions of ${tool} there are. ${messageOf(error)}\nCheck that this cluster's hosts reach the registry, then push again.`,
        { cause: error },
      );
    }
    await mkdir(this.#storeDir, { recursive: true });
    await writeFile(file, JSON.stringify({ checkedAtMs: this.#context.nowMs, versions }));
    this.#isChanged = true;
    return newestInRange(tool, range, versions, by);
  }

  /** Node in `<runtimeDir>/node-<version>`; the image's own without a download if it is that version. */
  async installNode(version: string): Promise<Runtime & { includeDir: string | undefined }> {
    const runtime = this.#runtime('node', version);
    await mkdir(join(runtime.dir, 'bin'), { recursive: true });
    if (version === process.versions.node) {
      await copyFile(process.execPath, join(runtime.dir, 'bin/node'));
      await chmod(join(runtime.dir, 'bin/node'), 0o755);
      const beside = join(dirname(dirname(await realpath(process.execPath))), 'include');
      return { ...runtime, includeDir: (await exists(join(beside, 'node/node.h'))) ? dirname(beside) : undefined };
    }
    const headers = join(this.#context.layout.scratchDir, runtime.name);
    const archive = await this.#fetch(`node-linux-${process.arch}`, version);
    await this.#unpack(archive, headers);
    await rm(runtime.dir, { recursive: true, force: true });
    await mkdir(runtime.dir, { recursive: true });
    await rename(join(headers, 'LICENSE'), join(runtime.dir, 'LICENSE'));
    await cp(join(headers, 'bin'), join(runtime.dir, 'bin'), { recursive: true, verbatimSymlinks: true });
    await chmod(join(runtime.dir, 'bin/node'), 0o755);
    return { ...runtime, includeDir: headers };
  }

  /**
   * A package with programs, in `<runtimeDir>/<tool>-<version>`: `bin` has links to them. `programs` are their names and paths
   * where the package itself does not say.
   */
  async installTool(
    tool: string,
    packageName: string,
    version: string,
    programs?: Readonly<Record<string, string>>,
  ): Promise<Runtime> {
    const runtime = this.#runtime(tool, version);
    const lib = join(runtime.dir, 'lib');
    await mkdir(lib, { recursive: true });
    if (packageName === 'npm' && version === this.#npm.version)
      await cp(this.#npm.dir, lib, { recursive: true, verbatimSymlinks: true });
    else await this.#unpack(await this.#fetch(packageName, version), lib);
    const { bin, optionalDependencies } = manifestSchema.parse(
      JSON.parse(await readFile(join(lib, 'package.json'), 'utf8')),
    );
    const native = nativePackage(optionalDependencies, process.arch);
    if (native !== undefined)
      await this.#placeNative(native, lib, Object.values(typeof bin === 'string' ? [bin] : bin));
    const binDir = join(runtime.dir, 'bin');
    await mkdir(binDir, { recursive: true });
    for (const [name, path] of Object.entries(programs ?? (typeof bin === 'string' ? { [tool]: bin } : bin))) {
      const program = join(lib, path);
      await chmod(program, 0o755);
      await rm(join(binDir, name), { force: true });
      await symlink(relative(binDir, program), join(binDir, name));
    }
    return runtime;
  }

  /**
   * What the package's own install script would do: compiled programs take the place of those that stand for them, and would
   * fetch them at their first run.
   */
  async #placeNative({ name, version }: NativePackage, lib: string, programs: readonly string[]): Promise<void> {
    const dir = join(this.#context.layout.scratchDir, `${name.replaceAll('/', '+')}-${version}`);
    await this.#unpack(await this.#fetch(name, version), dir);
    for (const program of programs) {
      if (await exists(join(dir, program))) await rename(join(dir, program), join(lib, program));
    }
    await rm(dir, { recursive: true, force: true });
  }

  /**
   * Forgets what this build did not use, so that the cache does not grow for ever: but for what another buildpack of the app used,
   * in this build or the one before.
   */
  async tidy(): Promise<void> {
    const usesFile = join(this.#storeDir, 'uses.json');
    const before = (await readCachedJson(usesFile, usesSchema)) ?? {};
    const own = [...this.#used].map((path) => basename(path)).sort();
    const uses = { ...before, [this.#by]: own };
    const wanted = new Set([...Object.values(uses).flat(), basename(usesFile)]);
    const names: string[] = await readdir(this.#storeDir).catch(() => []);
    for (const name of names) {
      if (wanted.has(name)) continue;
      await rm(join(this.#storeDir, name), { recursive: true, force: true });
      this.#isChanged = true;
    }
    if (own.join() === (before[this.#by] ?? []).join()) return;
    await mkdir(this.#storeDir, { recursive: true });
    await writeFile(usesFile, JSON.stringify(uses));
    this.#isChanged = true;
  }

  #runtime(tool: string, version: string): Runtime {
    const name = `${tool}-${version}`;
    return { name, dir: join(this.#context.layout.runtimeDir, name) };
  }

  /** The package's archive in the cache. */
  async #fetch(packageName: string, version: string): Promise<string> {
    const file = join(this.#storeDir, `${packageName.replaceAll('/', '+')}-${version}.tgz`);
    this.#used.add(file);
    if (await exists(file)) return file;
    await mkdir(this.#storeDir, { recursive: true });
    const { scratchDir } = this.#context.layout;
    try {
      const answer = await this.#askNpm([
        'pack',
        `${packageName}@${version}`,
        '--json',
        '--pack-destination',
        scratchDir,
      ]);
      const [packed] = packSchema.parse(JSON.parse(answer));
      // Whole or not at all: it is taken for whole by whoever finds it.
      await cp(join(scratchDir, packed?.filename ?? ''), `${file}.part`);
      await rename(`${file}.part`, file);
    } catch (error) {
      if (hasCode(error, 'cancelled')) throw error;
      throw new FlynnError(
        'unavailable',
        `could not fetch ${packageName} ${version} from the npm registry. ${messageOf(error)}\nCheck that this cluster's hosts reach the registry, then push again.`,
        { cause: error },
      );
    }
    this.#isChanged = true;
    return file;
  }

  async #unpack(archive: string, dir: string): Promise<void> {
    await mkdir(dir, { recursive: true });
    const args = ['--strip-components=1', '--no-same-owner', '-xzf', archive, '-C', dir] as const;
    await runForOutput(['tar', ...args], { cwd: dir, env: this.#context.baseEnv, signal: this.#context.signal });
  }

  /** With neither the app's .npmrc nor its package.json in sight. */
  #askNpm(args: readonly string[]): Promise<string> {
    const { baseEnv, layout, signal } = this.#context;
    const env = { ...baseEnv, HOME: layout.scratchDir, npm_config_cache: join(layout.scratchDir, 'npm') };
    const quiet = ['--loglevel=error', '--no-update-notifier', '--ignore-scripts', '--fetch-timeout=60000'];
    return runForOutput([process.execPath, this.#npm.cli, ...args, ...quiet], { cwd: layout.scratchDir, env, signal });
  }
}

/** `internal` if the image has none: nothing an app could do about it. */
export async function findImageNpm(path: string): Promise<ImageNpm> {
  for (const folder of path.split(':')) {
    const link = join(folder, 'npm');
    if (!(await exists(link))) continue;
    const cli = await realpath(link);
    const dir = dirname(dirname(cli));
    const manifest = await readTextFile(join(dir, 'package.json'));
    if (manifest === undefined) continue;
    const { version, engines } = manifestSchema.parse(JSON.parse(manifest));
    return { dir, cli, version, nodeRange: engines?.node ?? '*' };
  }
  throw new FlynnError('internal', `the builder's image has no npm on its PATH (${path})`);
}

export async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
