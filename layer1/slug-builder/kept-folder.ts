/** A folder an app's build makes, brought back by the next build when nothing it depends on has changed. */
import { createHash } from 'node:crypto';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { BuildContext } from './buildpack.ts';
import { runForOutput } from './command.ts';
import { exists } from './nodejs/toolchain.ts';

type Context = Pick<BuildContext, 'layout' | 'baseEnv' | 'signal' | 'keepCache'>;

export class KeptFolder {
  readonly #context: Context;
  readonly #dir: string;
  readonly #folder: string;

  /** `name` is its place in the cache; `folder` where it belongs. */
  constructor(context: Context, name: string, folder: string) {
    this.#context = context;
    this.#dir = join(context.layout.cacheDir, name);
    this.#folder = folder;
  }

  /** True if it is there again, as it was when it was kept under this key. */
  async restore(key: string): Promise<boolean> {
    const kept = await readFile(join(this.#dir, 'key'), 'utf8').catch(() => '');
    if (kept !== key || !(await exists(join(this.#dir, 'kept')))) return false;
    await rm(this.#folder, { recursive: true, force: true });
    await mkdir(dirname(this.#folder), { recursive: true });
    await this.#copy(join(this.#dir, 'kept'), this.#folder);
    return true;
  }

  /** From then on it is good, whatever becomes of the build. */
  async keep(key: string): Promise<void> {
    await rm(this.#dir, { recursive: true, force: true });
    if (!(await exists(this.#folder))) return;
    await mkdir(this.#dir, { recursive: true });
    await this.#copy(this.#folder, join(this.#dir, 'kept'));
    await writeFile(join(this.#dir, 'key'), key);
    this.#context.keepCache();
  }

  async #copy(from: string, to: string): Promise<void> {
    const { layout, baseEnv, signal } = this.#context;
    await runForOutput(['cp', '-a', from, to], { cwd: layout.scratchDir, env: baseEnv, signal });
  }
}

export function keyOf(...parts: readonly string[]): string {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(`${part.length} ${part}\n`);
  return hash.digest('hex');
}
