/**
 * Which volumes resident jobs have had on this host, as its disk says. Where the engine has one of them no more, what was in it
 * is lost, or on a disk that was not mounted. Who promised others to remember must not begin again with nothing.
 */
import { join } from 'node:path';
import { readJsonFile, writeFileAtomic } from '@flynn/kit/files';
import { z } from 'zod';

const noteSchema = z.record(z.string(), z.array(z.string()));
/** By the job's name; volumes by the engine's. */
export type VolumesHad = Readonly<Record<string, readonly string[]>>;

/** Hidden: all others in the folder are residents. */
export const volumesFile = (dir: string): string => join(dir, '.volumes.json');

/** `dir`: where residents are. One that is damaged is `invalid`. */
export async function readVolumesHad(dir: string): Promise<VolumesHad> {
  return (await readJsonFile(volumesFile(dir), noteSchema)) ?? {};
}

export async function writeVolumesHad(dir: string, had: VolumesHad): Promise<void> {
  await writeFileAtomic(volumesFile(dir), `${JSON.stringify(had)}\n`);
}

/** Those of `wanted` that the job has had, and that are not there. */
export function lostVolumes(
  wanted: readonly string[],
  { had = [], there }: { had: readonly string[] | undefined; there: readonly string[] },
): string[] {
  return wanted.filter((name) => had.includes(name) && !there.includes(name));
}
