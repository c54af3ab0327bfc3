/** What is wrong with the cluster's backups? */
import type { Check, Found } from '@flynn/host-agent/doctor/finding';
import { eitherCommand } from '@flynn/kit/operator-commands';
import { parseSchedule, nextTick } from '../cron/schedule.ts';
import type { Deps } from '../deps.ts';
import { findRestore } from './restore-state.ts';
import { backupScheduleType, scheduleId } from './resources.ts';
import type { BackupSchedule } from './resources.ts';

/** Who makes them looks every few seconds; one under way may take its time. */
const lateMs = { begin: 2 * 3_600_000, end: 12 * 3_600_000 } as const;

export function backupCheck({ resources, store, now }: Pick<Deps, 'resources' | 'store' | 'now'>): Check {
  return {
    name: 'backups',
    find: async (signal) => {
      const schedule = await resources.find(backupScheduleType, scheduleId, { signal });
      if (schedule === undefined) return [];
      const restore = (await findRestore(store, { signal }))?.state;
      const restoringSince = restore === undefined || restore.stage === 'complete' ? undefined : restore.startedAt;
      return backupFindings(schedule, now(), restoringSince);
    },
  };
}

/** A cluster without a schedule is its people's to know. Pure. `restoringSince`: none is made before that is through. */
export function backupFindings(
  { spec, status }: Pick<BackupSchedule, 'spec' | 'status'>,
  now: number,
  restoringSince?: string,
): Found[] {
  const { failure, lastSuccess, handledMs, pending } = status;
  const subject = 'backups';
  const last = lastSuccess === undefined ? 'there is none yet' : `the last one is of ${lastSuccess.at}`;
  const why = `what is made on the cluster since then is lost with it: ${last}`;
  if (failure !== undefined) {
    const what = `${failure.count} in a row failed: ${failure.message}`;
    const remedy = 'mend that, then flynn cluster backup run; flynn cluster backup list has them all';
    return [{ severity: 'critical', subject, what, since: failure.since, why, remedy }];
  }
  const due = pending?.nextMs ?? nextTick(parseSchedule(spec.schedule, spec.timezone), handledMs);
  const lateSince = Math.max(due ?? Infinity, Date.parse(restoringSince ?? iso(0)));
  if (due === undefined || now < lateSince + (pending === undefined ? lateMs.begin : lateMs.end)) return [];
  if (restoringSince !== undefined) {
    const what = 'one is due, and waits until the backup that is restored onto this cluster is whole';
    const remedy = `${eitherCommand('restore')} with the same file goes on with it, unless it is at it now`;
    return [{ severity: 'critical', subject, what, since: restoringSince, why, remedy }];
  }
  return [
    {
      severity: 'critical',
      subject,
      what: 'one is due, and nobody makes it',
      since: iso(due),
      why,
      remedy: 'flynn -a controller ps: does its worker run? flynn -a controller log -t worker has what it says',
    },
  ];
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}
