/** Ends what goes on for a datastore: a backup that is under way, or a restore that has not begun. */
import { FlynnError } from '@flynn/kit/errors';
import type { Deps } from '../deps.ts';
import { commandOf } from '../datastores/lookup.ts';
import type { AppResource } from '../resources.ts';
import { isOpen, isOpenRestore, isUnsettled } from './plan.ts';
import { iso } from './subject.ts';
import { datastoreBackupType } from './types.ts';
import type { BackupPlan, DatastoreBackupResource } from './types.ts';

/**
 * Its record goes: one that waits does not begin, and whoever makes one finds it gone within seconds and ends its program, also a
 * worker of a version before. `conflict` for one that has ended by then.
 */
export async function cancelBackup(
  { resources }: Pick<Deps, 'resources'>,
  { id, uid }: DatastoreBackupResource,
  signal: AbortSignal,
): Promise<void> {
  const stillOpen = (one: DatastoreBackupResource) => {
    if (isOpen(one)) return {};
    throw new FlynnError('conflict', `${id} has ended, it is ${one.status.state}: only what is under way is cancelled`);
  };
  await resources.delete(datastoreBackupType, id, { signal, expectUid: uid, also: stillOpen });
}

type Withdrawal = Readonly<{ app: Pick<AppResource, 'spec'>; name: string; nowMs: number }>;

/**
 * The plan's status once that person has withdrawn its restore. Pure. Throws `conflict` for what has begun, what no person asked
 * for, and where there is none. What a cluster that came back has not put back is told as that again; its moment is another, which
 * is how a worker of a version before sees that it is not to begin.
 */
export function withdrawn(
  { restore, ...status }: BackupPlan['status'],
  { app, name, nowMs }: Withdrawal,
): BackupPlan['status'] {
  const { name: datastore } = app.spec;
  if (restore?.state !== 'waiting' && !isOpenRestore(restore)) {
    throw new FlynnError('conflict', `nothing waits to be put back into ${datastore}`);
  }
  const what = restore.at === undefined ? restore.backupId : `what there was at ${restore.at}`;
  if (restore.state === 'running') {
    throw new FlynnError(
      'conflict',
      `${what ?? 'a backup'} is being put back into ${datastore} since ${restore.startedAt ?? 'just now'}, and may be taking its place: ` +
        `it is left to its end, flynn ${commandOf(app)} backup -a ${datastore} tells how far it is`,
    );
  }
  if (restore.by === undefined) throw ofNobody(app, isUnsettled(restore));
  if (!isUnsettled(restore)) return status;
  const error = `${name} withdrew what was to be put back in its place (${what ?? 'a backup'})`;
  const wantedMs = Math.max(nowMs, restore.wantedMs + 1);
  const owed = { state: 'failed', isOwed: true, wantedMs, attempt: 0, nextMs: wantedMs } as const;
  return { ...status, restore: { ...owed, endedAt: iso(nowMs), error } };
}

function ofNobody(app: Pick<AppResource, 'spec'>, isOfCluster: boolean): FlynnError {
  const { name, datastore } = app.spec;
  if (!isOfCluster) {
    const remove = `flynn resource remove ${datastore?.resourceId ?? name}`;
    return new FlynnError(
      'conflict',
      `${name} begins with what is put into it: "${remove}" ends that, with the database`,
    );
  }
  return new FlynnError(
    'conflict',
    `the cluster came back, and puts back what was in ${name} then: once that has failed, ` +
      `"flynn ${commandOf(app)} backup dismiss -a ${name}" leaves the database as it is`,
  );
}
