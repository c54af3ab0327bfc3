/** What is wrong with the backups of datastores? */
import type { Check, Found } from '@flynn/host-agent/doctor/finding';
import { commandOf } from '../datastores/lookup.ts';
import { appType } from '../resources.ts';
import { nextTick, parseSchedule } from '../cron/schedule.ts';
import type { Deps } from '../deps.ts';
import { failureOf, isOpen, isUnsettled, newestComplete } from './plan.ts';
import { backupPlanType, datastoreBackupType } from './types.ts';
import type { BackupPlan, DatastoreBackupResource } from './types.ts';

/** A night's dump may take its time. */
const lateMs = 24 * 3_600_000;

export function datastoreBackupCheck({ resources, now }: Pick<Deps, 'resources' | 'now'>): Check {
  return {
    name: 'databases',
    find: async (signal) => {
      const [apps, plans, records] = await Promise.all([
        resources.list(appType, { signal, where: ({ spec }) => spec.datastore !== undefined }),
        resources.list(backupPlanType, { signal }),
        resources.list(datastoreBackupType, { signal }),
      ]);
      const own = Map.groupBy(records, ({ owner }) => owner?.id);
      const commands = new Map(apps.map((app) => [app.id, commandOf(app)]));
      return plans.flatMap((plan) =>
        datastoreFindings({ ...plan, command: commands.get(plan.id) ?? 'resource' }, own.get(plan.id) ?? [], now()),
      );
    },
  };
}

/** Pure. `records` of this datastore; `command` of `flynn`, for its kind. */
export function datastoreFindings(
  { spec, status, command }: Pick<BackupPlan, 'spec' | 'status'> & { command: string },
  records: readonly DatastoreBackupResource[],
  now: number,
): Found[] {
  const { datastore } = spec;
  const subject = `database ${datastore}`;
  const { restore } = status;
  if (isUnsettled(restore) && restore?.state === 'failed') {
    return [
      {
        severity: 'critical',
        subject,
        what: `what was in it when the cluster was backed up could not be put back: ${restore.error ?? 'it failed'}`,
        ...(restore.endedAt === undefined ? {} : { since: restore.endedAt }),
        why: 'apps that have it find it empty, or with what they wrote since; until then it is not backed up by itself',
        remedy: `flynn ${command} backup -a ${datastore} lists what there is, "restore ID" puts it back; "dismiss" leaves it as it is`,
      },
    ];
  }
  if (isUnsettled(restore)) return [];
  const last = newestComplete(records)?.status.endedAt;
  const why = `what was written since then is lost with its disks: ${last === undefined ? 'there is no backup yet' : `the last one is of ${last}`}`;
  const failure = failureOf(records);
  if (failure !== undefined) {
    const remedy = `mend that, then flynn ${command} backup run -a ${datastore}; flynn ${command} backup -a ${datastore} has them all`;
    const what = `its backup failed: ${failure.message}`;
    return [{ severity: 'critical', subject, what, since: failure.since, why, remedy }];
  }
  const due = dueOf(spec, status, records);
  if (due === undefined || now < due + lateMs) return [];
  return [
    {
      severity: 'critical',
      subject,
      what: 'its backup is due, and is not there a day later',
      since: new Date(due).toISOString(),
      why,
      remedy: 'flynn -a controller ps: does its worker run? flynn -a controller log -t worker has what it says',
    },
  ];
}

/** Since when one is owed: it was begun and has not ended, or nobody began it. */
function dueOf(
  { schedule, timezone }: BackupPlan['spec'],
  { handledMs }: BackupPlan['status'],
  records: readonly DatastoreBackupResource[],
): number | undefined {
  const begun = records.filter(isOpen).map(({ createdAt }) => Date.parse(createdAt));
  const tick = schedule === undefined ? undefined : nextTick(parseSchedule(schedule, timezone), handledMs);
  const all = [...begun, ...(tick === undefined ? [] : [tick])];
  return all.length === 0 ? undefined : Math.min(...all);
}
