/** Backups of datastores as people see them. */
import { z } from 'zod';

/** `retrying`: it failed, and is tried again soon. */
export const datastoreBackupStates = ['queued', 'running', 'retrying', 'complete', 'failed'] as const;

/** Who wanted it. */
export const makerSchema = z.discriminatedUnion('is', [
  z.object({ is: z.literal('schedule') }),
  z.object({ is: z.literal('person'), name: z.string() }),
  /** One of the whole cluster, which has it in it. */
  z.object({ is: z.literal('cluster backup') }),
]);
export type Maker = z.output<typeof makerSchema>;

export const datastoreBackupSchema = z.object({
  id: z.string(),
  by: makerSchema,
  state: z.enum(datastoreBackupStates),
  /** 0 before the first. */
  attempt: z.int(),
  createdAt: z.string(),
  startedAt: z.string().optional(),
  endedAt: z.string().optional(),
  /** Of what the datastore's program wrote, as far as it has. */
  dumpBytes: z.int().optional(),
  /** Of the last attempt that failed. */
  error: z.string().optional(),
});
export type DatastoreBackup = z.output<typeof datastoreBackupSchema>;

/**
 * `waiting`: its app does not run here yet; `wanted`: a worker is about to. Of one that failed nothing of the backup is in the
 * datastore, unless its error says that this is not known.
 */
export const datastoreRestoreStates = ['waiting', 'wanted', 'running', 'complete', 'failed'] as const;

export const datastoreRestoreSchema = z.object({
  state: z.enum(datastoreRestoreStates),
  /** What is put back. Of a cluster that was restored it is the newest that came along, and left out until it is known. */
  backupId: z.string().optional(),
  /** In the place of a backup: what there was at that moment, by the history of that datastore. */
  at: z.string().optional(),
  from: z.string().optional(),
  /** Nobody: the cluster itself came back from a backup. */
  by: z.string().optional(),
  /** The cluster came back from a backup, and what was in the datastore then has not been put back, nor been done without. */
  isOwed: z.boolean().optional(),
  startedAt: z.string().optional(),
  endedAt: z.string().optional(),
  /** Of the dump, as far as it was sent. */
  sentBytes: z.int().optional(),
  error: z.string().optional(),
});
export type DatastoreRestore = z.output<typeof datastoreRestoreSchema>;

export const datastoreScheduleSchema = z.object({
  /** As a crontab has it; none: only when somebody asks. */
  schedule: z.string().optional(),
  timezone: z.string().optional(),
  /** So many of the newest that the schedule made, and as many of those that people asked for. */
  keep: z.int(),
  nextAt: z.string().optional(),
});
export type DatastoreSchedule = z.output<typeof datastoreScheduleSchema>;

export const datastoreBackupsSchema = z.object({
  /** Its app's name. */
  datastore: z.string(),
  schedule: datastoreScheduleSchema,
  /** `waitsFor`: what keeps it from being begun. */
  restore: datastoreRestoreSchema.extend({ waitsFor: z.string().optional() }).optional(),
  /** Since the last that is complete. */
  failure: z.object({ since: z.string(), count: z.int(), message: z.string() }).optional(),
  /** The newest first. */
  backups: z.array(datastoreBackupSchema),
});
export type DatastoreBackups = z.output<typeof datastoreBackupsSchema>;

export function makerText(by: Maker): string {
  return by.is === 'person' ? by.name : by.is;
}
