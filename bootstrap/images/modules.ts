/** Which folders of node_modules does a package need? Node's own search, followed over `dependencies`. */
import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { FlynnError } from '@flynn/kit/errors';
import { z } from 'zod';

const packageSchema = z.object({ dependencies: z.record(z.string(), z.string()).default({}) });

/** Paths below `root`, such as `node_modules/etcd3`; nested copies stay nested. */
export async function moduleFolders(root: string, packages: readonly string[]): Promise<string[]> {
  const found = new Set<string>();
  const visit = async (name: string, from: string): Promise<void> => {
    const folder = await resolve(root, name, from);
    if (found.has(folder)) return;
    found.add(folder);
    const manifest = packageSchema.parse(JSON.parse(await readFile(join(root, folder, 'package.json'), 'utf8')));
    for (const dependency of Object.keys(manifest.dependencies)) await visit(dependency, folder);
  };
  for (const name of packages) await visit(name, '.');
  return [...found].sort();
}

async function resolve(root: string, name: string, from: string): Promise<string> {
  for (let folder = from; ; folder = dirname(folder)) {
    const candidate = join(folder, 'node_modules', name);
    try {
      await readFile(join(root, candidate, 'package.json'));
      return candidate;
    } catch (error) {
      if (folder !== '.') continue;
      throw new FlynnError('not_found', `${name} is not in node_modules: run npm ci`, { cause: error });
    }
  }
}
