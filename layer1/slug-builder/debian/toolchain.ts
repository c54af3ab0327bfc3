/**
 * Languages out of Debian's packages, each unpacked into a folder of its own below the runtime folder: a layer that all apps
 * of the same packages share. Which packages those are is asked twice a day at most; their files are kept in the cache.
 */
import { createHash } from 'node:crypto';
import { copyFile, lstat, mkdir, readFile, readdir, readlink, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { FlynnError, hasCode, hasErrno } from '@flynn/kit/errors';
import { z } from 'zod';
import type { BuildContext, Runtime } from '../buildpack.ts';
import { readCachedJson } from '../cached-json.ts';
import { runForOutput } from '../command.ts';
import { exists } from '../nodejs/toolchain.ts';
import { Apt, type Deb } from './apt.ts';

const listIsFreshMs = 12 * 3_600_000;
/** Part of a runtime's name: higher when what is done to unpacked packages changes. */
const layoutVersion = '1';

const debSchema = z.object({ name: z.string(), version: z.string(), file: z.string(), sha256: z.string() });
const indexSchema = z.object({
  checkedAtMs: z.number(),
  names: z.record(z.string(), z.array(z.string())),
  resolved: z.record(z.string(), z.array(debSchema)),
});
type Index = z.output<typeof indexSchema>;

/** For people: documentation, and what only installing with dpkg is for. */
const uselessFolders = ['doc', 'man', 'info', 'locale', 'lintian', 'bug', 'menu', 'bash-completion'];
/** Needed by scripts that run when a package is installed on a machine, and by nothing else. */
const uselessPackages =
  /^(?:systemd|libsystemd-shared|procps|libproc2-0|psmisc|ucf|sensible-utils|java-common|default-jre-headless|ca-certificates-java|iproute2|libbpf1|libcap2-bin|libmnl0|libtirpc.*|libxtables12|libtext-.*-perl|fonts-.*|fontconfig-config)$/;

export class DebianToolchain {
  readonly #context: BuildContext;
  readonly #dir: string;
  readonly #apt: Apt;
  readonly #used = new Set<string>();
  #index: Index | undefined;
  #isChanged = false;

  constructor(context: BuildContext) {
    this.#context = context;
    this.#dir = join(context.layout.cacheDir, 'debian');
    this.#apt = new Apt(context);
  }

  /** Whether the cache has something new. */
  get isChanged(): boolean {
    return this.#isChanged;
  }

  /** The first group of `pattern` in the names of packages that begin with `prefix`: which versions there are. */
  async versions(prefix: string, pattern: RegExp): Promise<string[]> {
    const names = await this.#remember(
      (index) => index.names[prefix],
      async () => {
        const found = (await this.#apt.names(prefix)).filter((name) => pattern.test(name)).sort();
        return (index) => void (index.names[prefix] = found);
      },
    );
    return names.flatMap((name) => pattern.exec(name)?.[1] ?? []);
  }

  /**
   * The packages with all they need, in `<runtimeDir>/<tool>-<version of the first>-<digest>`. `beside`: packages that the builder
   * has, for what only builds use: these, and what they need, are left out.
   */
  async install(
    tool: string,
    packages: readonly [string, ...string[]],
    { beside = [] }: { beside?: readonly string[] } = {},
  ): Promise<Runtime> {
    let debs = await this.#resolve(packages, beside);
    try {
      await this.#fetch(debs);
    } catch (error) {
      if (this.#context.signal.aborted) throw error;
      // An archive forgets a version when there is a newer one.
      this.#index = { checkedAtMs: 0, names: {}, resolved: {} };
      debs = await this.#resolve(packages, beside);
      await this.#fetch(debs);
    }
    const version = debs.find(({ name }) => name === packages[0])?.version;
    if (version === undefined) throw new FlynnError('internal', `${packages[0]} is not among what was to be installed`);
    const hash = createHash('sha256').update(layoutVersion);
    for (const { file, sha256 } of debs) hash.update(`\n${file} ${sha256}`);
    const plain = version.replace(/^\d+:/, '').replace(/[-+~].*$/, '');
    const name = `${tool}-${plain}-${hash.digest('hex').slice(0, 10)}`;
    const dir = join(this.#context.layout.runtimeDir, name);
    await rm(dir, { recursive: true, force: true });
    await mkdir(dir, { recursive: true });
    for (const { file } of debs) await this.#run(['dpkg-deb', '-x', join(this.#dir, file), dir]);
    for (const folder of uselessFolders) await rm(join(dir, 'usr/share', folder), { recursive: true, force: true });
    await makeLinksRelative(dir);
    await findInterpreters(join(dir, 'usr/bin'));
    return { name, dir };
  }

  /** Forgets what no build of late used, so that the cache does not grow for ever. An app may have other languages, too. */
  async tidy(): Promise<void> {
    const names: string[] = await readdir(this.#dir).catch(() => []);
    const ofLate = Object.values(this.#index?.resolved ?? {}).flat();
    const wanted = new Set([...this.#used, ...ofLate.map(({ file }) => file), 'index.json']);
    for (const name of names) {
      if (wanted.has(name)) continue;
      await rm(join(this.#dir, name), { recursive: true, force: true });
      this.#isChanged = true;
    }
  }

  async #resolve(packages: readonly string[], beside: readonly string[]): Promise<Deb[]> {
    const key = [...packages, ...beside.map((name) => `-${name}`)].join(' ');
    return this.#remember(
      (index) => index.resolved[key],
      async () => {
        const debs = (await this.#apt.resolve(packages, beside)).filter(({ name }) => !uselessPackages.test(name));
        return (index) => void (index.resolved[key] = debs);
      },
    );
  }

  /** What the cache knows, if it is fresh; else what the archive says; when that is away, what the cache knew. */
  async #remember<T>(read: (index: Index) => T | undefined, ask: () => Promise<(index: Index) => void>): Promise<T> {
    const file = join(this.#dir, 'index.json');
    this.#index ??= (await readCachedJson(file, indexSchema)) ?? {
      checkedAtMs: this.#context.nowMs,
      names: {},
      resolved: {},
    };
    const known = read(this.#index);
    const isFresh = this.#context.nowMs - this.#index.checkedAtMs < listIsFreshMs;
    if (known !== undefined && isFresh) return known;
    try {
      const remember = await ask();
      if (!isFresh) this.#index = { checkedAtMs: this.#context.nowMs, names: {}, resolved: {} };
      remember(this.#index);
    } catch (error) {
      if (known === undefined || hasCode(error, 'cancelled')) throw error;
      return known;
    }
    await mkdir(this.#dir, { recursive: true });
    await writeFile(file, JSON.stringify(this.#index));
    this.#isChanged = true;
    const answer = read(this.#index);
    if (answer === undefined) throw new Error('what was just remembered is not there');
    return answer;
  }

  async #fetch(debs: readonly Deb[]): Promise<void> {
    const missing: Deb[] = [];
    for (const deb of debs) {
      this.#used.add(deb.file);
      const bytes = await readIfThere(join(this.#dir, deb.file));
      if (bytes === undefined || createHash('sha256').update(bytes).digest('hex') !== deb.sha256) missing.push(deb);
    }
    if (missing.length === 0) return;
    const incoming = join(this.#context.layout.scratchDir, 'debs');
    await this.#apt.download(missing, incoming);
    await mkdir(this.#dir, { recursive: true });
    for (const { file } of missing) await copyFile(join(incoming, file), join(this.#dir, file));
    await rm(incoming, { recursive: true });
    this.#isChanged = true;
  }

  #run(command: readonly [string, ...string[]]): Promise<string> {
    const { layout, baseEnv, signal } = this.#context;
    return runForOutput(command, { cwd: layout.scratchDir, env: baseEnv, signal });
  }
}

/** Packages link to files of theirs by where those are on a whole machine. */
async function makeLinksRelative(root: string): Promise<void> {
  const links = await readdir(root, { recursive: true, withFileTypes: true });
  for (const entry of links) {
    if (!entry.isSymbolicLink()) continue;
    const path = join(entry.parentPath, entry.name);
    const target = await readlink(path);
    if (!target.startsWith('/') || !(await exists(join(root, target)))) continue;
    await rm(path);
    await symlink(relative(dirname(path), join(root, target)), path);
  }
}

/** Scripts name their interpreter by where it is on a whole machine; here it is found in PATH. */
async function findInterpreters(binDir: string): Promise<void> {
  const names: string[] = await readdir(binDir).catch(() => []);
  for (const name of names) {
    const path = join(binDir, name);
    if (!(await lstat(path)).isFile()) continue;
    const bytes = await readFile(path);
    if (bytes.subarray(0, 2).toString() !== '#!') continue;
    const text = bytes.toString('utf8');
    const [line, interpreter] = /^#! ?\/usr\/bin\/([\w.+-]+)[^\n]*/.exec(text) ?? [];
    if (line === undefined || interpreter === undefined || !names.includes(interpreter)) continue;
    await writeFile(path, `#!/usr/bin/env ${interpreter}${text.slice(line.length)}`);
  }
}

async function readIfThere(file: string): Promise<Buffer | undefined> {
  try {
    return await readFile(file);
  } catch (error) {
    if (hasErrno(error, 'ENOENT')) return undefined;
    throw error;
  }
}
