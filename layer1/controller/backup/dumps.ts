/** Which backups of datastores does one of the cluster have in it? */
import { decodeResource } from '@flynn/resource/record';
import type { Revision, Store } from '@flynn/store/store';
import { isLiveDatastore } from '../datastore-backups/asking.ts';
import { backupOfCluster } from '../datastore-backups/plan.ts';
import { backupPlanType, datastoreBackupType } from '../datastore-backups/types.ts';
import type { DatastoreBackupResource, PendingRestore } from '../datastore-backups/types.ts';
import type { AppResource } from '../resources.ts';
import { prefixOf } from './contents.ts';
import { entriesAt } from './pages.ts';

/** Of each datastore that has one that is complete. */
export async function dumpsAt(
  store: Store,
  at: { revision: Revision; signal: AbortSignal },
): Promise<DatastoreBackupResource[]> {
  const all: DatastoreBackupResource[] = [];
  for await (const entry of entriesAt(store, prefixOf(datastoreBackupType), at)) {
    all.push(decodeResource(datastoreBackupType, entry));
  }
  const restores = new Map<string | undefined, PendingRestore | undefined>();
  for await (const entry of entriesAt(store, prefixOf(backupPlanType), at)) {
    const { id, status } = decodeResource(backupPlanType, entry);
    restores.set(id, status.restore);
  }
  const own = Map.groupBy(all, ({ owner }) => owner?.id);
  return [...own].flatMap(([appId, records]) => backupOfCluster(records, restores.get(appId)) ?? []);
}

/** Names of datastores that run something, and have none. Pure. */
export function undumped(apps: readonly AppResource[], dumps: readonly DatastoreBackupResource[]): string[] {
  const dumped = new Set(dumps.map(({ owner }) => owner?.id));
  return apps.filter((app) => isLiveDatastore(app) && !dumped.has(app.id)).map(({ spec }) => spec.name);
}
