/** How much room this host has for another version, and what of it is here already. */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readdir, stat, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { readTextFile } from '@flynn/kit/files';
import { z } from 'zod';
import type { Engine } from '../engine/engine.ts';

/** Of an installed version, which its installer put there whole. */
const digestsFile = 'SHA256SUMS';

const placeSchema = z.object({
  path: z.string(),
  /** Places of one number share their room. */
  device: z.int(),
  freeBytes: z.number().nonnegative(),
});

export const hostRoomSchema = z.object({
  /** Where versions are unpacked, where a bundle lies until then, and where the engine has its images. */
  programs: placeSchema,
  bundles: placeSchema,
  engine: placeSchema,
  versions: z.array(z.string()),
  /** Of each version's list of its files, SHA-256: which bundle it is of. Agents of old do not say. */
  digests: z.record(z.string(), z.string()).optional(),
  images: z.array(z.string()),
});
export type HostRoom = z.output<typeof hostRoomSchema>;

export type RoomPlaces = {
  /** The version in use. */
  installation: string;
  stateDir: string;
  engineDir: string;
  engine: Pick<Engine, 'listImages'>;
};

export async function roomOf(places: RoomPlaces, signal: AbortSignal): Promise<HostRoom> {
  const prefix = dirname(places.installation);
  const [programs, bundles, engine] = await Promise.all([
    placeAt(prefix),
    placeAt(places.stateDir),
    placeAt(places.engineDir),
  ]);
  const versions = (await readdir(prefix)).filter((name) => existsSync(join(prefix, name, 'bin/flynn-host')));
  const digests: Record<string, string> = {};
  for (const version of versions) {
    const list = await readTextFile(join(prefix, version, digestsFile));
    if (list !== undefined) digests[version] = createHash('sha256').update(list).digest('hex');
  }
  const images = (await places.engine.listImages({ signal })).flatMap(({ refs }) => refs);
  return { programs, bundles, engine, versions, digests, images };
}

/** As `df` has it: what is reserved for root is not free. */
async function placeAt(path: string): Promise<HostRoom['programs']> {
  const [{ bavail, bsize }, { dev: device }] = await Promise.all([statfs(path), stat(path)]);
  return { path, device, freeBytes: bavail * bsize };
}
