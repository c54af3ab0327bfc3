/** Backups of the platform's own databases, followed to their end; before a backup of the cluster all of them. */
import { backups } from '@flynn/controller/backup/api';
import { datastoreBackups } from '@flynn/controller/datastore-backups/api';
import type { DatastoreBackup } from '@flynn/controller/datastore-backups/model';
import { FlynnError } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import type { Context } from '../context.ts';
import { formatSize } from '../output.ts';
import { pollUntil } from '../polling.ts';

/** Of what may be large. */
export const wholeMs = 24 * 3_600_000;

/**
 * One that was tried again and failed has ended for who waits, too. Where it is gone another that is complete, and none of
 * `earlier`, took its place, if there is one. Else throws `not_found`: it was deleted meanwhile.
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
  throw new FlynnError('not_found', `the backup ${backup} was deleted meanwhile`);
}

function isInPlace({ id, state }: DatastoreBackup, earlier: readonly string[] | undefined): boolean {
  return state === 'complete' && earlier?.includes(id) === false;
}

function hasOutcome({ state, attempt }: DatastoreBackup, before: number): boolean {
  return state === 'complete' || state === 'failed' || (state === 'retrying' && attempt > before);
}

/** `mayMiss`: of one that cannot be dumped now the last backup will do, or none. */
export async function dumpDatabases(context: Context, { mayMiss }: { mayMiss: boolean }): Promise<void> {
  const client = await context.client();
  const asked = await client.call(backups.dump, {});
  let bytes = 0;
  const failed: string[] = [];
  for (const { datastore, ...one } of asked) {
    const ended = await context.progress(
      () => `dumping ${datastore}: ${formatSize(bytes)}`,
      () => followBackup(client, one, (now) => (bytes = now.dumpBytes ?? 0)),
    );
    if (ended.state !== 'complete') failed.push(`${datastore} (${ended.error ?? 'nobody knows why'})`);
  }
  if (failed.length === 0) return;
  const what = `what is in these databases could not be dumped: ${failed.join(', ')}`;
  if (!mayMiss) {
    throw new FlynnError('conflict', `${what}\n  mend that, or do with their last backups by --skip-missing`);
  }
  context.tell(`${what}: their last backups are taken, where there are any`);
}
