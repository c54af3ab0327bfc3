/**
 * What install scripts and the build made in packages, kept over another install: of compiled packages, patched ones and generated
 * clients nothing would make it again.
 */
import { mkdir, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { readTextFile } from '@flynn/kit/files';
import { exists } from './toolchain.ts';

const asideName = 'node_modules-built';

/** Packages that the install brings again, in the same versions and places, are as they were before it. */
export async function keepingBuilt(appDir: string, install: () => Promise<void>): Promise<void> {
  const parents = await parentsOfModules(appDir);
  for (const dir of parents) await rename(join(dir, 'node_modules'), join(dir, asideName));
  await install();
  for (const dir of parents) {
    await takeBack(join(dir, asideName), join(dir, 'node_modules'));
    await rm(join(dir, asideName), { recursive: true, force: true });
  }
}

/** Of the app and its workspaces. */
async function parentsOfModules(dir: string): Promise<string[]> {
  const entries = (await readdir(dir, { withFileTypes: true })).filter((entry) => entry.isDirectory());
  const found = entries.some(({ name }) => name === 'node_modules') ? [dir] : [];
  for (const { name } of entries) {
    if (name !== 'node_modules' && name !== '.git') found.push(...(await parentsOfModules(join(dir, name))));
  }
  return found;
}

async function takeBack(built: string, now: string): Promise<void> {
  for (const entry of await foldersOf(built)) {
    const [from, to] = [join(built, entry), join(now, entry)];
    if (entry === '.bun') await takeBackApart(from, to);
    else if (entry.startsWith('.')) await takeMade(from, now, entry);
    else if (entry.startsWith('@'))
      for (const name of await foldersOf(from)) await takePackage(join(from, name), join(to, name));
    else await takePackage(from, to);
  }
}

/** Where Bun keeps each package apart from the others it does not need. */
async function takeBackApart(built: string, now: string): Promise<void> {
  for (const id of await foldersOf(built)) {
    if (await exists(join(now, id))) await takeBack(join(built, id, 'node_modules'), join(now, id, 'node_modules'));
  }
}

/** As `.prisma`, which no install brings. */
async function takeMade(from: string, now: string, name: string): Promise<void> {
  if (name === '.bin' || name === '.cache' || (await exists(join(now, name)))) return;
  await mkdir(now, { recursive: true });
  await rename(from, join(now, name));
}

async function takePackage(built: string, now: string): Promise<void> {
  const [before, after] = await Promise.all([built, now].map((dir) => readTextFile(join(dir, 'package.json'))));
  if (before === undefined || before !== after) return;
  const nested = 'node_modules';
  if (await exists(join(now, nested))) {
    await takeBack(join(built, nested), join(now, nested));
    await rm(join(built, nested), { recursive: true, force: true });
    await rename(join(now, nested), join(built, nested));
  } else await rm(join(built, nested), { recursive: true, force: true });
  await rm(now, { recursive: true, force: true });
  await rename(built, now);
}

/** Without links: what they lead to is somewhere else in the same tree. */
async function foldersOf(dir: string): Promise<string[]> {
  const entries = await readdir(dir, { withFileTypes: true }).catch(() => []);
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
}
