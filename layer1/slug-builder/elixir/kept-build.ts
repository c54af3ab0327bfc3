/**
 * Packages of an app of Mix, fetched and compiled, brought back by the next build as long as nothing they depend on has changed.
 * Of the app's own nothing is kept: by times Mix would take it for compiled, and times here are those of commits.
 */
import { mkdir, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { BuildContext } from '../buildpack.ts';
import { runForOutput } from '../command.ts';
import { exists } from '../nodejs/toolchain.ts';

export class KeptBuild {
  readonly #context: BuildContext;
  readonly #dir: string;
  readonly #key: string;
  readonly #mixEnv: string;

  constructor(context: BuildContext, { key, mixEnv }: { key: string; mixEnv: string }) {
    this.#context = context;
    this.#dir = join(context.layout.cacheDir, 'elixir');
    this.#key = key;
    this.#mixEnv = mixEnv;
  }

  /** True if they are there again. */
  async restore(): Promise<boolean> {
    const key = await readFile(join(this.#dir, 'key'), 'utf8').catch(() => '');
    if (key !== this.#key || !(await exists(join(this.#dir, 'kept')))) return false;
    await this.#run(['cp', '-a', `${join(this.#dir, 'kept')}/.`, this.#context.layout.appDir]);
    // The cache has no times, and what is older than its configuration is compiled anew.
    const now = `@${Math.floor(Date.now() / 1000)}`;
    const folders = await this.#present(['deps', '_build']);
    await this.#run(['find', ...folders, '-exec', 'touch', '-h', '-d', now, '{}', '+']);
    return true;
  }

  /** What was fetched and compiled is good, whatever becomes of the build. Answers whether there is anything. */
  async keepPackages(): Promise<boolean> {
    const { appDir } = this.#context.layout;
    await rm(this.#dir, { recursive: true, force: true });
    const names: string[] = await readdir(join(appDir, 'deps')).catch(() => []);
    if (names.length === 0) return false;
    const libs = join('_build', this.#mixEnv, 'lib');
    const compiled = names.map((name) => join(libs, name));
    await this.#keep(['deps', ...(await this.#present(compiled))]);
    await writeFile(join(this.#dir, 'key'), this.#key);
    this.#context.keepCache();
    return true;
  }

  /**
   * Takes programs that packages fetched to make assets with, beside what is compiled, out of the app: they are as large as all the
   * rest, and nothing of it runs them. Answers whether there was a new one for the next build.
   */
  async takeTools(): Promise<boolean> {
    const { appDir } = this.#context.layout;
    const entries = await readdir(join(appDir, '_build'), { withFileTypes: true }).catch(() => []);
    const tools = entries.filter((entry) => entry.isFile()).map(({ name }) => join('_build', name));
    const kept = join(this.#dir, 'kept');
    const added: string[] = [];
    if (await exists(kept)) for (const path of tools) if (!(await exists(join(kept, path)))) added.push(path);
    if (added.length > 0) await this.#keep(added);
    for (const path of tools) await rm(join(appDir, path));
    return added.length > 0;
  }

  async #present(paths: readonly string[]): Promise<string[]> {
    const present: string[] = [];
    for (const path of paths) if (await exists(join(this.#context.layout.appDir, path))) present.push(path);
    return present;
  }

  async #keep(paths: readonly string[]): Promise<void> {
    const kept = join(this.#dir, 'kept');
    await mkdir(kept, { recursive: true });
    await this.#run(['cp', '-a', '--parents', ...paths, kept]);
  }

  async #run(command: readonly [string, ...string[]]): Promise<void> {
    const { layout, baseEnv, signal } = this.#context;
    await runForOutput(command, { cwd: layout.appDir, env: baseEnv, signal });
  }
}
