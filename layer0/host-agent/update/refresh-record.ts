/** What came of the last time that this host was to become one of another version, kept where any version finds it. */
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { readJsonFile, writeFileAtomic } from '@flynn/kit/files';
import { z } from 'zod';

const recordSchema = z.object({
  version: z.string(),
  /** Of the program that does it; none is needed once it has ended. */
  pid: z.int().positive(),
  hasEnded: z.boolean(),
  /** Why it came to nothing, for people. */
  error: z.string().optional(),
});
export type RefreshRecord = z.output<typeof recordSchema>;

/** `isBrokenOff`: nobody has said how it ended, and nobody is at it. */
export type RefreshOutcome = RefreshRecord & { isBrokenOff?: boolean };

/** The word that its program is started with. */
const command = 'refresh';

const fileIn = (stateDir: string): string => join(stateDir, 'refresh.json');

export function writeRefresh(stateDir: string, record: RefreshRecord): Promise<void> {
  return writeFileAtomic(fileIn(stateDir), `${JSON.stringify(record)}\n`);
}

/** Before another one: what is there now says nothing of it. */
export function forgetRefresh(stateDir: string): Promise<void> {
  return rm(fileIn(stateDir), { force: true });
}

/** One that was killed, or lost its power, has ended with that as its error. */
export async function readRefresh(stateDir: string): Promise<RefreshOutcome | undefined> {
  const record = await readJsonFile(fileIn(stateDir), recordSchema);
  if (record === undefined || record.hasEnded || (await isRefreshing(record.pid))) return record;
  return { ...record, hasEnded: true, error: 'it was broken off', isBrokenOff: true };
}

/** The pid may have passed on to another program. */
async function isRefreshing(pid: number): Promise<boolean> {
  try {
    return (await readFile(`/proc/${pid}/cmdline`, 'utf8')).split('\0').includes(command);
  } catch {
    // Gone, before this look or during it.
    return false;
  }
}
