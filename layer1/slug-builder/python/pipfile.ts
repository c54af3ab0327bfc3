/** What does a Pipfile.lock install? */
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { z } from 'zod';
import { folderOf, isUsualIndex, type Lock, type LockedPackage, withMarkers } from './locked.ts';

const entrySchema = z.object({
  version: z.string().optional(),
  hashes: z.array(z.string()).default([]),
  markers: z.string().optional(),
  extras: z.array(z.string()).default([]),
  git: z.string().optional(),
  ref: z.string().optional(),
  subdirectory: z.string().optional(),
  file: z.string().optional(),
  path: z.string().optional(),
});
const lockSchema = z.object({
  _meta: z.object({ sources: z.array(z.object({ url: z.string() })).default([]) }).optional(),
  default: z.record(z.string(), entrySchema).default({}),
});

export function readPipfileLock(text: string): Lock {
  let lock: z.output<typeof lockSchema>;
  try {
    lock = lockSchema.parse(JSON.parse(text.replace(/^\uFEFF/, '')));
  } catch (error) {
    throw new FlynnError('invalid', `Pipfile.lock is not usable: ${messageOf(error)}. Write it anew: pipenv lock`, {
      cause: error,
    });
  }
  const sources = (lock._meta?.sources ?? []).map(({ url }) => url.replaceAll(/\$([A-Z_][A-Z0-9_]*)/g, '${$1}'));
  return {
    packages: Object.entries(lock.default).map(([name, entry]) => lockedPackage(name, entry)),
    indexes: sources.filter((url) => !isUsualIndex(url)),
    isPackage: false,
  };
}

function lockedPackage(name: string, entry: z.output<typeof entrySchema>): LockedPackage {
  const { hashes, markers, git, ref, subdirectory } = entry;
  const extras = entry.extras.length === 0 ? '' : `[${entry.extras.join(',')}]`;
  if (git !== undefined) {
    const folder = subdirectory === undefined ? '' : `#subdirectory=${subdirectory}`;
    const place = `git+${git}${ref === undefined ? '' : `@${ref}`}${folder}`;
    return { requirement: withMarkers(`${name}${extras} @ ${place}`, markers), hashes: [] };
  }
  const place = entry.file ?? entry.path;
  if (place !== undefined) return { requirement: withMarkers(`${folderOf(place)}${extras}`, markers), hashes: [] };
  const version = entry.version === undefined || entry.version === '*' ? '' : entry.version;
  return { requirement: withMarkers(`${name}${extras}${version}`, markers), hashes };
}
