/** What a package manager downloaded, kept for the app's next build. */
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { readTextFile } from '@flynn/kit/files';
import type { BuildContext, Runtime } from '../buildpack.ts';
import { sizeText } from '../output.ts';
import { type Held, heldIn, nothingHeld } from '../tool-store.ts';

/** More than this is sooner downloaded again than packed, stored and brought back at each build. */
const mostBytes = 512 * 1024 ** 2;
/** Packages that nothing needs any more stay with the others: with so many times what was needed at first it begins anew. */
const mostGrowth = 2;

export class Downloads {
  /** For the managers' own folders. */
  readonly dir: string;
  readonly #root: string;
  readonly #firstFile: string;
  readonly #out: BuildContext['out'];
  #before = nothingHeld;

  constructor({ layout, out }: Pick<BuildContext, 'layout' | 'out'>) {
    this.#root = join(layout.cacheDir, 'nodejs-downloads');
    this.dir = join(this.#root, 'kept');
    this.#firstFile = join(this.#root, 'first-bytes');
    this.#out = out;
  }

  /** Before the install. Answers whether there is something of the build before. */
  async begin(): Promise<boolean> {
    const held = await this.#held();
    if (held.bytes === 0) return false;
    const firstText = await readTextFile(this.#firstFile).catch(() => 'none');
    // Of all that the build before left: programs after its install may have downloaded more, as pnpm does into its one store.
    if (firstText === undefined) await writeFile(this.#firstFile, String(held.bytes));
    if (held.bytes > Number(firstText ?? held.bytes) * mostGrowth) {
      await this.#forget();
      return false;
    }
    this.#before = held;
    return true;
  }

  /** After an install that succeeded. Answers whether something else is kept now. */
  async end(): Promise<boolean> {
    const held = await this.#held();
    const before = this.#before;
    if (held.bytes > mostBytes) {
      this.#out.line(`The packages downloaded are not kept for the next build: ${sizeText(held.bytes)}`);
      await this.#forget();
      return before.files.size > 0;
    }
    return held.files.size !== before.files.size || [...held.files.keys()].some((path) => !before.files.has(path));
  }

  async #forget(): Promise<void> {
    await rm(this.#root, { recursive: true, force: true });
  }

  /** Without what each run of npm writes anew; and npx would run what it fetched for a build long ago, and call it the newest. */
  async #held(): Promise<Held> {
    for (const name of ['_npx', '_logs']) await rm(join(this.dir, 'npm', name), { recursive: true, force: true });
    return heldIn(this.dir);
  }
}

/**
 * pnpm links node_modules to its store. A store that is kept stays apart from them: programs of a build write into node_modules,
 * and of files that come out of a cache pnpm cannot tell that somebody did. Install scripts of packages run in each build: the
 * store would bring back what they made in node_modules, but not the browser that they put into the app's home.
 */
export function apartFromStore(runtimes: readonly Runtime[]): Record<string, string> {
  const major = /^pnpm-(\d+)\./.exec(
    runtimes.map(({ name }) => name).find((name) => name.startsWith('pnpm-')) ?? '',
  )?.[1];
  if (major === undefined) return {};
  const setting = `${Number(major) >= 11 ? 'pnpm' : 'npm'}_config`;
  return { [`${setting}_package_import_method`]: 'clone-or-copy', [`${setting}_side_effects_cache`]: 'false' };
}
