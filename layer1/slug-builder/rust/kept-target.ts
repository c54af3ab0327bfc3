/**
 * What Cargo compiled, kept for the next build. Cargo looks at times to tell what it has compiled already, and those of a commit
 * tell nothing: an older one may be built after a newer one. So whatever is the app's own is compiled by each build, and what
 * comes from elsewhere is kept: that does not change without having another version.
 */
import { createHash } from 'node:crypto';
import { mkdir, readFile, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { readTextFile } from '@flynn/kit/files';
import { exists } from '../nodejs/toolchain.ts';
import { markOf } from './artifacts.ts';

/** In each folder of crates that `cargo vendor` brings. */
const vendoredSign = '.cargo-checksum.json';

/**
 * Files of the app are newer than anything that is kept, but for crates that it brings along, which are older. What is kept
 * is good as long as all of those are the same.
 */
export async function prepareTarget(storeDir: string, appDir: string, nowMs: number): Promise<void> {
  await mkdir(storeDir, { recursive: true });
  const digest = await setTimes(appDir, nowMs);
  const file = join(storeDir, 'vendored');
  if ((await readTextFile(file)) === digest) return;
  await rm(join(storeDir, 'target'), { recursive: true, force: true });
  await writeFile(file, digest);
}

/** Answers a digest of all crates that the app brings along. */
async function setTimes(appDir: string, nowMs: number): Promise<string> {
  const hash = createHash('sha256');
  const visit = async (folder: string, isWithin: boolean): Promise<void> => {
    const dir = join(appDir, folder);
    const entries = (await readdir(dir, { withFileTypes: true })).toSorted((a, b) => (a.name < b.name ? -1 : 1));
    const isVendored = isWithin || entries.some(({ name }) => name === vendoredSign);
    const timeS = isVendored ? 0 : nowMs / 1_000;
    for (const entry of entries) {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) await visit(path, isVendored);
      if (!entry.isFile()) continue;
      if (isVendored)
        hash.update(`${path}\n`).update(
          createHash('sha256')
            .update(await readFile(join(appDir, path)))
            .digest(),
        );
      await utimes(join(appDir, path), timeS, timeS);
    }
    await utimes(dir, timeS, timeS);
  };
  await visit('.', false);
  return hash.digest('hex');
}

/** Leaves what the next build may take: nothing of the app itself, and nothing that this build did not need. */
export async function tidyTarget(targetDir: string, ofOthers: ReadonlySet<string>): Promise<void> {
  for (const dir of await profileDirs(targetDir)) {
    for (const name of await readdir(dir)) {
      const path = join(dir, name);
      if (['.fingerprint', 'build', 'deps'].includes(name)) await tidyFolder(path, ofOthers);
      else await rm(path, { recursive: true, force: true });
    }
  }
}

async function tidyFolder(dir: string, ofOthers: ReadonlySet<string>): Promise<void> {
  for (const name of await readdir(dir)) {
    if (!ofOthers.has(markOf(name) ?? '')) await rm(join(dir, name), { recursive: true, force: true });
  }
}

/** `release`, or what another profile is called, and the same below the name of another target. */
async function profileDirs(targetDir: string): Promise<string[]> {
  const found: string[] = [];
  const visit = async (dir: string, depth: number): Promise<void> => {
    for (const entry of await readdir(dir, { withFileTypes: true }).catch(() => [])) {
      if (!entry.isDirectory()) continue;
      const path = join(dir, entry.name);
      if (await exists(join(path, '.fingerprint'))) found.push(path);
      else if (depth > 1) await visit(path, depth - 1);
    }
  };
  await visit(targetDir, 2);
  return found;
}
