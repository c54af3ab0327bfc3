/** What the controller keeps of datastores' backups. Both types go with the datastore's app, which owns them. */
import { defineType } from '@flynn/resource/type';
import type { ResourceOf } from '@flynn/resource/type';
import { z } from 'zod';
import { maxHistoryDays } from '../datastore-history/model.ts';
import { datastoreBackupSchema, datastoreRestoreSchema, makerSchema } from './model.ts';

export const maxKeep = 1_000;

/** How a datastore is backed up, and what is put back into it. Its id is that of the datastore's app. */
export const backupPlanType = defineType({
  name: 'backup-plan',
  version: 1,
  spec: z.object({
    /** The app's name, which stays. */
    datastore: z.string(),
    schedule: z.string().optional(),
    timezone: z.string().optional(),
    keep: z.int().min(1).max(maxKeep),
    /** Each moment of so many days can be gone back to; 0: none. Default: see datastore-history/plan.ts. */
    historyDays: z.int().min(0).max(maxHistoryDays).optional(),
    /** What its backups are encrypted with: 32 random bytes, base64url. The name is one that the audit trail hides. */
    secret: z.string(),
  }),
  status: z.object({
    /** Ticks up to and with this moment are dealt with. */
    handledMs: z.int(),
    /** The last one that was asked for. */
    restore: datastoreRestoreSchema
      .extend({
        /** Since when, by the clock of whoever asked. */
        wantedMs: z.int(),
        attempt: z.int(),
        /** Not before. */
        nextMs: z.int(),
        /** Of whose history it is: an app's id. */
        fromId: z.string().optional(),
      })
      .optional(),
  }),
  initialStatus: () => ({ handledMs: 0 }),
  immutable: ['datastore', 'secret'],
  owner: 'app',
  cascades: false,
});
export type BackupPlan = ResourceOf<typeof backupPlanType>;
export type PendingRestore = NonNullable<BackupPlan['status']['restore']>;

/** See plan.ts for how they are called, and in which order they are. */
export const datastoreBackupType = defineType({
  name: 'datastore-backup',
  version: 1,
  spec: z.object({ by: makerSchema }),
  status: datastoreBackupSchema
    .pick({ state: true, attempt: true, startedAt: true, endedAt: true, dumpBytes: true, error: true })
    .extend({
      /** Not before. */
      nextMs: z.int(),
      /** Of what is later in the datastore it is larger, whatever clocks say; none before it begins (see plan.ts). */
      orderMs: z.int().optional(),
      /** Somebody asked for one while it waited: they wait for this one. */
      isAsked: z.boolean().optional(),
      /** Of one that is complete: the blob, and its size. */
      digest: z.string().optional(),
      blobBytes: z.int().optional(),
    }),
  initialStatus: () => ({ state: 'queued' as const, attempt: 0, nextMs: 0 }),
  immutable: ['by'],
  owner: 'app',
  cascades: false,
});
export type DatastoreBackupResource = ResourceOf<typeof datastoreBackupType>;
