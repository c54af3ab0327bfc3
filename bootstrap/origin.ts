/**
 * Where this flynn comes from: its repository, or a bundle that was installed. Both have their parts at the same places
 * below their root; a bundle has its programs and images made already.
 */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { FlynnError } from '@flynn/kit/errors';
import { installedCommands, repositoryCommands } from '@flynn/kit/operator-commands';
import { z } from 'zod';
import { type ImageName, imageNames } from './images/recipes.ts';

/** What a bundle says of itself, at its root. */
export const bundleFile = 'bundle.json';
/** What the repository has there instead. */
const lockFile = 'package-lock.json';

export const bundleSchema = z.object({
  version: z.string(),
  platform: z.string(),
  /** When it was made: no clock that is right says less. */
  madeAt: z.string(),
  /** The platform's images by what they are for, as engines name them. Another version's are perhaps for other things. */
  images: z.record(z.string(), z.string()),
  /** Of the archive with all of them, as engines read it. Bundles of old do not say. */
  imagesBytes: z.number().optional(),
  /** What a cluster may stand on that not every version knows (`update/features.ts`). Bundles of old do not say: none. */
  features: z.array(z.string()).default([]),
});
export type Bundle = Readonly<z.output<typeof bundleSchema>>;

/** Below a bundle's root. */
export const programsFolder = 'programs';
export const imagesFile = 'images.tar.zst';
/** Of every other file of the bundle, as `sha256sum -c` reads them. */
export const digestsFile = 'SHA256SUMS';

/** The folder all paths of the repository, or of the bundle, are below. */
export const root: string = findRoot(dirname(fileURLToPath(import.meta.url)));
export const node: string = join(root, 'node_modules/.bin/node');

/** Whether this runs from an installed bundle. */
export const isInstalled: boolean = existsSync(join(root, bundleFile));

/** Changed last when this flynn was made. */
export const newestFile: string = join(root, isInstalled ? bundleFile : lockFile);

/** What people type here. */
export const commands = isInstalled ? installedCommands : repositoryCommands;

const versionSchema = z.object({ version: z.string() });

export function versionOfThis(): string {
  const file = join(root, isInstalled ? bundleFile : 'package.json');
  return versionSchema.parse(JSON.parse(readFileSync(file, 'utf8'))).version;
}

/** Of an installed bundle; nothing where none is, as in the repository. */
export function readBundle(folder: string = root): Bundle | undefined {
  const file = join(folder, bundleFile);
  return existsSync(file) ? bundleSchema.parse(JSON.parse(readFileSync(file, 'utf8'))) : undefined;
}

/** Of the version of these programs. */
export function imagesOf({ version, images }: Bundle): Map<ImageName, string> {
  return new Map(
    imageNames.map((name) => {
      const tag = images[name];
      if (tag === undefined) throw new FlynnError('invalid', `the bundle of version ${version} has no image ${name}`);
      return [name, tag];
    }),
  );
}

function findRoot(from: string): string {
  for (let folder = from; ; folder = dirname(folder)) {
    if ([bundleFile, lockFile].some((name) => existsSync(join(folder, name)))) return folder;
    if (folder === dirname(folder)) {
      throw new FlynnError('internal', `${from} is neither in flynn's repository nor in a bundle of it`);
    }
  }
}
