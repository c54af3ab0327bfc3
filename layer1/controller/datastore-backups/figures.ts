/** Backups of datastores as figures, of mirrors that are followed. */
import type { Metrics, Sample } from '@flynn/kit/metrics';
import type { ResourceService } from '@flynn/resource/service';
import { valuesOf } from '../mirrors/cell-view.ts';
import { failureOf, newestComplete } from './plan.ts';
import { backupPlanType, datastoreBackupType } from './types.ts';
import type { DatastoreBackupResource } from './types.ts';

/** Resolves once it knows them. */
export async function backupFigures(resources: ResourceService, metrics: Metrics): Promise<AsyncDisposable> {
  const plans = await resources.mirror(backupPlanType);
  const records = await resources.mirror(datastoreBackupType);
  const each = (read: (own: readonly DatastoreBackupResource[]) => number | undefined): Sample[] => {
    const own = Map.groupBy(valuesOf(records), ({ owner }) => owner?.id);
    return valuesOf(plans).flatMap(({ id, spec }) => {
      const value = read(own.get(id) ?? []);
      return value === undefined ? [] : [{ labels: { datastore: spec.datastore }, value }];
    });
  };
  const endOf = (own: readonly DatastoreBackupResource[]): number | undefined => {
    const { endedAt } = newestComplete(own)?.status ?? {};
    return endedAt === undefined ? undefined : Date.parse(endedAt) / 1_000;
  };
  const name = (rest: string) => `flynn_cluster_datastore_backup_${rest}`;
  metrics.gauge(name('seconds'), 'When the newest complete backup of each datastore ended.', () => each(endOf));
  metrics.gauge(name('bytes'), 'Its dump.', () => each((own) => newestComplete(own)?.status.dumpBytes));
  metrics.gauge(name('failures'), 'Backups of each datastore that failed since then.', () =>
    each((own) => failureOf(own)?.count ?? 0),
  );
  return {
    async [Symbol.asyncDispose]() {
      await Promise.all([plans, records].map((mirror) => mirror[Symbol.asyncDispose]()));
    },
  };
}
