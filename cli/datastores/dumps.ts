/** Backups of the platform's own databases, followed to their end; before a backup of the cluster all of them. */
import { backups } from '@flynn/controller/backup/api';
import { datastoreBackups } from '@flynn/controller/datastore-backups/api';
import type { DatastoreBackup } from '@flynn/controller/datastore-backups/model';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import { z } from 'zod';
import type { Context } from '../context.ts';
import { formatSize } from '../output.ts';
import { pollUntil } from '../polling.ts';

/** Of what may be large. */
export const wholeMs = 24 * 3_600_000;

/**
 * One that was tried again and failed has ended for who waits, too. Where it is gone another that is complete, and none of
 * `earlier`, took its place, if there is one. Else throws `cancelled`: somebody cancelled or deleted it meanwhile.
 */
export async function followBackup(
  client: Pick<HttpClient, 'call'>,
  {
    resource,
    backup,
    attempt,
    earlier,
  }: { resource: string; backup: string; attempt: number; earlier?: readonly string[] | undefined },
  onProgress: (now: DatastoreBackup) => void,
): Promise<DatastoreBackup> {
  const found = await pollUntil(
    async () => {
      const all = await client.call(datastoreBackups.list, { params: { resource } });
      const now = all.backups.find(({ id }) => id === backup);
      if (now === undefined) return all.backups.find((one) => isInPlace(one, earlier)) ?? 'gone';
      onProgress(now);
      return hasOutcome(now, attempt) ? now : undefined;
    },
    { what: `the end of the backup ${backup}`, deadlineMs: wholeMs, intervalMs: 500 },
  );
  if (found !== 'gone') return found;
  throw new FlynnError('cancelled', `the backup ${backup} was cancelled, or deleted, meanwhile`);
}

function isInPlace({ id, state }: DatastoreBackup, earlier: readonly string[] | undefined): boolean {
  return state === 'complete' && earlier?.includes(id) === false;
}

function hasOutcome({ state, attempt }: DatastoreBackup, before: number): boolean {
  return state === 'complete' || state === 'failed' || (state === 'retrying' && attempt > before);
}

type Waiting = Pick<Context, 'progress' | 'tell'> & Readonly<{ client: () => Promise<Pick<HttpClient, 'call'>> }>;

/** So often others may be made meanwhile. */
const mostRounds = 3;

/**
 * `backUp` is done with all databases dumped. One that was made since then, which it fails of, is dumped as well, and it is done
 * again.
 */
export async function withDumps<T>(
  context: Waiting,
  { mayMiss }: { mayMiss: boolean },
  backUp: () => Promise<T>,
): Promise<T> {
  await dumpDatabases(context, { mayMiss });
  for (let round = 1; ; round += 1) {
    try {
      return await backUp();
    } catch (error) {
      const only = undumpedIn(error);
      if (only === undefined || round > mostRounds) throw error;
      await dumpDatabases(context, { mayMiss, only });
    }
  }
}

/** A controller of a version before names none. */
function undumpedIn(error: unknown): string[] | undefined {
  if (!hasCode(error, 'conflict') || !(error instanceof FlynnError)) return undefined;
  return z.array(z.string()).min(1).safeParse(error.detail['undumped']).data;
}

/** `mayMiss`: of one that cannot be dumped now the last backup will do, or none. `only`: of these, those that have none. */
async function dumpDatabases(
  context: Waiting,
  { mayMiss, only }: { mayMiss: boolean; only?: string[] },
): Promise<void> {
  const client = await context.client();
  const asked = await client.call(backups.dump, only === undefined ? {} : { body: { only } });
  let bytes = 0;
  const failed: string[] = [];
  for (const { datastore, ...one } of asked) {
    const error = await context.progress(
      () => `dumping ${datastore}: ${formatSize(bytes)}`,
      () => failureOf(followBackup(client, one, (now) => (bytes = now.dumpBytes ?? 0))),
    );
    if (error !== undefined) failed.push(`${datastore} (${error})`);
  }
  if (failed.length === 0) return;
  const what = `what is in these databases could not be dumped: ${failed.join(', ')}`;
  if (!mayMiss) {
    throw new FlynnError('conflict', `${what}\n  mend that, or do with their last backups by --skip-missing`);
  }
  context.tell(`${what}: their last backups are taken, where there are any`);
}

/** What somebody cancelled is one that cannot be dumped now, too. */
async function failureOf(ending: Promise<DatastoreBackup>): Promise<string | undefined> {
  try {
    const { state, error = 'nobody knows why' } = await ending;
    return state === 'complete' ? undefined : error;
  } catch (error) {
    if (!hasCode(error, 'cancelled')) throw error;
    return 'it was cancelled, or deleted, meanwhile';
  }
}
