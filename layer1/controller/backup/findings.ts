/** What is wrong with the cluster's backups? */
import type { Check, Found } from '@flynn/host-agent/doctor/finding';
import { parseSchedule, nextTick } from '../cron/schedule.ts';
import type { Deps } from '../deps.ts';
import { backupScheduleType, scheduleId } from './resources.ts';
import type { BackupSchedule } from './resources.ts';

/** Who makes them looks every few seconds; one under way may take its time. */
const lateMs = { begin: 2 * 3_600_000, end: 12 * 3_600_000 } as const;

export function backupCheck({ resources, now }: Pick<Deps, 'resources' | 'now'>): Check {
  return {
    name: 'backups',
    find: async (signal) => {
      const schedule = await resources.find(backupScheduleType, scheduleId, { signal });
      return schedule === undefined ? [] : backupFindings(schedule, now());
    },
  };
}

/** A cluster without a schedule is its people's to know. Pure. */
export function backupFindings({ spec, status }: Pick<BackupSchedule, 'spec' | 'status'>, now: number): Found[] {
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
  if (due === undefined || now < due + (pending === undefined ? lateMs.begin : lateMs.end)) return [];
  return [
    {
      severity: 'critical',
      subject,
      what: 'one is due, and nobody makes it',
      since: new Date(due).toISOString(),
      why,
      remedy: 'flynn -a controller ps: does its worker run? flynn -a controller log -t worker has what it says',
    },
  ];
}
