/**
 * Debian's packages for a user who is not root: apt with folders of its own. Where they come from is what the builder's image
 * says, or the operator; apt checks the archive's signatures and every package's digest.
 */
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import type { BuildContext } from '../buildpack.ts';
import { runForOutput } from '../command.ts';

/** One package file. `file` is its name in the archive, without folders. */
export type Deb = { name: string; version: string; file: string; sha256: string };

/** What runs in every slug already: packages, one a line, beside this program. */
const presentFile = join(import.meta.dirname, 'runner-packages');

export class Apt {
  readonly #context: BuildContext;
  readonly #dir: string;
  #ready: Promise<void> | undefined;
  #present: Promise<ReadonlySet<string>> | undefined;

  constructor(context: BuildContext) {
    this.#context = context;
    this.#dir = join(context.layout.scratchDir, 'apt');
  }

  /** Names of packages that begin so. */
  async names(prefix: string): Promise<string[]> {
    await this.#update();
    return (await this.#run('apt-cache', ['pkgnames', prefix])).split('\n').filter((name) => name !== '');
  }

  /**
   * The packages and all they need that no slug has yet, and that is not there with those `beside` it either, sorted by name.
   * `invalid` if one is not to be had.
   */
  async resolve(packages: readonly string[], beside: readonly string[] = []): Promise<Deb[]> {
    await this.#update();
    this.#present ??= this.#readPresent();
    const present = await this.#present;
    const others = new Set(beside.length === 0 ? [] : (await this.#closure(beside)).map(({ name }) => name));
    return (await this.#closure(packages)).filter(({ name }) => !present.has(name) && !others.has(name));
  }

  /** Into `dir`, under the names that `resolve` gave. */
  async download(debs: readonly Deb[], dir: string): Promise<void> {
    await this.#update();
    await mkdir(dir, { recursive: true });
    const wanted = debs.map(({ name, version }) => `${name}=${version}`);
    await this.#run('apt-get', ['-q', 'download', ...wanted], dir);
  }

  async #closure(packages: readonly string[]): Promise<Deb[]> {
    const text = await this.#run('apt-get', ['-qq', '--print-uris', 'install', ...packages]);
    return text
      .split('\n')
      .flatMap(parseUri)
      .toSorted((a, b) => (a.name < b.name ? -1 : 1));
  }

  async #readPresent(): Promise<ReadonlySet<string>> {
    const text = await readFile(presentFile, 'utf8').catch((error: unknown) => {
      throw new FlynnError('internal', `the builder's image has no ${presentFile}`, { cause: error });
    });
    const packages = text.split('\n').filter((line) => line !== '');
    // What Debian itself cannot be without is in every image of it.
    const debs = await this.#closure([...packages, 'apt', '?essential', '?priority(required)']);
    return new Set(debs.map(({ name }) => name));
  }

  #update(): Promise<void> {
    this.#ready ??= this.#begin();
    return this.#ready;
  }

  async #begin(): Promise<void> {
    const { signal } = this.#context;
    const at = (name: string): string => join(this.#dir, name);
    for (const dir of ['state/lists/partial', 'cache/archives/partial', 'parts']) {
      await mkdir(at(dir), { recursive: true });
    }
    const sources = await sourcesOf(this.#context.baseEnv);
    if (sources !== undefined) await writeFile(at('sources.list'), sources);
    await writeFile(
      at('apt.conf'),
      [
        `Dir::State "${at('state')}";`,
        // As if nothing were installed: what an app needs does not depend on what the builder has.
        'Dir::State::status "/dev/null";',
        `Dir::Cache "${at('cache')}";`,
        `Dir::Log "${this.#dir}";`,
        ...(sources === undefined
          ? []
          : [`Dir::Etc::sourcelist "${at('sources.list')}";`, `Dir::Etc::sourceparts "${at('parts')}";`]),
        'APT::Sandbox::User "";',
        'APT::Install-Recommends "false";',
        'APT::Get::Assume-Yes "true";',
        'Acquire::Languages "none";',
        'Acquire::ForceHash "SHA256";',
        'Acquire::Retries "2";',
        'Acquire::http::Timeout "30";',
        'Acquire::https::Timeout "30";',
        '',
      ].join('\n'),
    );
    try {
      await this.#run('apt-get', ['-q', '--error-on=any', 'update']);
    } catch (error) {
      if (signal.aborted) throw error;
      await rm(this.#dir, { recursive: true, force: true });
      throw new FlynnError(
        'unavailable',
        `could not read Debian's list of packages. ${messageOf(error)}\nCheck that this cluster's hosts reach a mirror of Debian; another is named with: flynn runner env set FLYNN_DEBIAN_MIRROR=URL`,
        { cause: error },
      );
    }
  }

  #run(program: 'apt-get' | 'apt-cache', args: readonly string[], cwd = this.#dir): Promise<string> {
    const { baseEnv, signal } = this.#context;
    const env = { ...baseEnv, APT_CONFIG: join(this.#dir, 'apt.conf'), HOME: this.#dir };
    return runForOutput([program, ...args], { cwd, env, signal });
  }
}

/** A line of --print-uris: 'URL' FILE SIZE SHA256:DIGEST. */
export function parseUri(line: string): Deb[] {
  const [, file, sha256] = /^'[^']*' (\S+\.deb) \d+ SHA256:([0-9a-f]{64})/.exec(line) ?? [];
  if (file === undefined || sha256 === undefined) return [];
  const [name = '', version = ''] = file.split('_');
  return [{ name, version: decodeURIComponent(version), file, sha256 }];
}

/** A sources.list when the operator names a mirror; without one the image's own count. */
async function sourcesOf(env: Readonly<Record<string, string>>): Promise<string | undefined> {
  const mirror = env['FLYNN_DEBIAN_MIRROR'];
  if (mirror === undefined) return undefined;
  const suite = /^VERSION_CODENAME=(\S+)$/m.exec(await readFile('/etc/os-release', 'utf8'))?.[1] ?? 'stable';
  const security = env['FLYNN_DEBIAN_SECURITY_MIRROR'];
  const lines = [`deb ${mirror} ${suite} main`, `deb ${mirror} ${suite}-updates main`];
  return [...lines, ...(security === undefined ? [] : [`deb ${security} ${suite}-security main`]), ''].join('\n');
}
