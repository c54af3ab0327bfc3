/**
 * That this host moves the cluster to another version: on its disk from before the first step until all is of one version again,
 * kept where any version finds it.
 */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { readJsonFile, writeFileAtomic } from '@flynn/kit/files';
import { z } from 'zod';

const recordSchema = z.object({
  version: z.string(),
  /** The one to go back to, or on to where this is the way back; where there is one. */
  previous: z.string().optional(),
  /** ISO 8601. */
  since: z.string(),
  /** Its way back begins by itself: whoever is at it tells how that ends. */
  isReturning: z.literal(true).optional(),
});
export type UpdateRecord = Readonly<z.output<typeof recordSchema>>;

const fileIn = (stateDir: string): string => join(stateDir, 'update.json');

export function readUpdate(stateDir: string): Promise<UpdateRecord | undefined> {
  return readJsonFile(fileIn(stateDir), recordSchema);
}

export function writeUpdate(stateDir: string, record: UpdateRecord): Promise<void> {
  return writeFileAtomic(fileIn(stateDir), `${JSON.stringify(record)}\n`);
}

export function forgetUpdate(stateDir: string): Promise<void> {
  return rm(fileIn(stateDir), { force: true });
}

/** What goes on with one that is not through, for people. Hosts are sent a bundle in their turn alone: without it those lack it. */
export function goOnCommands({ version, previous }: Pick<UpdateRecord, 'version' | 'previous'>): string {
  const back = previous === undefined ? '' : `; flynn-host update --to ${previous} goes back`;
  return `flynn-host update --to ${version} goes on (with --bundle FILE where hosts lack it)${back}`;
}
