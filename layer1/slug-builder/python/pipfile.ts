/** What does a Pipfile.lock install, as lines for pip? */
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { z } from 'zod';

const entrySchema = z.object({
  version: z.string().optional(),
  hashes: z.array(z.string()).default([]),
  markers: z.string().optional(),
  extras: z.array(z.string()).default([]),
  git: z.string().optional(),
  ref: z.string().optional(),
  file: z.string().optional(),
  path: z.string().optional(),
});
const lockSchema = z.object({ default: z.record(z.string(), entrySchema).default({}) });

export function requirementsOfPipfileLock(text: string): string {
  let lock: z.output<typeof lockSchema>;
  try {
    lock = lockSchema.parse(JSON.parse(text.replace(/^\uFEFF/, '')));
  } catch (error) {
    throw new FlynnError('invalid', `Pipfile.lock is not usable: ${messageOf(error)}. Write it anew: pipenv lock`, {
      cause: error,
    });
  }
  const entries = Object.entries(lock.default);
  // pip wants digests of all or of none.
  const hasAllHashes = entries.every(([, { hashes }]) => hashes.length > 0);
  const lines = entries.map(([name, entry]) => {
    const hashes = hasAllHashes ? entry.hashes.map((hash) => ` --hash=${hash}`).join('') : '';
    const markers = entry.markers === undefined ? '' : ` ; ${entry.markers}`;
    return `${requirementOf(name, entry)}${markers}${hashes}\n`;
  });
  return lines.join('');
}

function requirementOf(name: string, entry: z.output<typeof entrySchema>): string {
  const extras = entry.extras.length === 0 ? '' : `[${entry.extras.join(',')}]`;
  if (entry.git !== undefined) {
    return `${name}${extras} @ git+${entry.git}${entry.ref === undefined ? '' : `@${entry.ref}`}`;
  }
  const place = entry.file ?? entry.path;
  if (place !== undefined) return `${place}${extras}`;
  return `${name}${extras}${entry.version === undefined || entry.version === '*' ? '' : entry.version}`;
}
