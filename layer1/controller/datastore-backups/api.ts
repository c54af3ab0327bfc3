/**
 * The API of datastores' backups: of resources that are one. Whoever sees the resource sees them; all else is for developers of all
 * its apps.
 */
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';
import {
  datastoreBackupSchema,
  datastoreBackupsSchema,
  datastoreRestoreSchema,
  datastoreScheduleSchema,
} from './model.ts';
import { maxKeep } from './types.ts';

export const datastoreBackups = {
  list: defineRoute({
    method: 'GET',
    path: '/resources/:resource/backups',
    access: 'anybody',
    response: datastoreBackupsSchema,
    summary: 'When the database is backed up, how that went, and what is put back into it',
  }),
  run: defineRoute({
    method: 'POST',
    path: '/resources/:resource/backups',
    access: 'anybody',
    response: datastoreBackupSchema,
    summary: 'Make one now; one that waits to be tried again is tried now',
  }),
  download: defineRoute({
    method: 'POST',
    /** A POST, for it is in the audit trail: who has the answer has all that was in the database. */
    path: '/resources/:resource/backups/:backup/download',
    access: 'anybody',
    response: 'stream',
    summary: "What the database's own program wrote, as it reads it back",
  }),
  remove: defineRoute({
    method: 'DELETE',
    path: '/resources/:resource/backups/:backup',
    access: 'anybody',
    response: 'empty',
    summary: 'Delete a backup; one under way is refused',
  }),
  cancel: defineRoute({
    method: 'POST',
    path: '/resources/:resource/backups/:backup/cancel',
    access: 'anybody',
    response: 'empty',
    summary: 'End a backup that is under way, or waits: nothing of it is kept; one that has ended is refused',
  }),
  schedule: defineRoute({
    method: 'PUT',
    path: '/resources/:resource/backup-schedule',
    access: 'anybody',
    body: z.object({
      /** As a crontab has it: `0 3 * * *`. */
      schedule: z.string().max(200),
      /** Default: UTC. */
      timezone: z.string().max(100).optional(),
      /** So many of the newest; default: as it is. */
      keep: z.int().min(1).max(maxKeep).optional(),
    }),
    response: datastoreScheduleSchema,
    summary: 'Back it up by itself from now on; what was said before is replaced',
  }),
  unschedule: defineRoute({
    method: 'DELETE',
    path: '/resources/:resource/backup-schedule',
    access: 'anybody',
    response: 'empty',
    summary: 'Back it up only when somebody asks',
  }),
  restore: defineRoute({
    method: 'POST',
    path: '/resources/:resource/restore',
    access: 'anybody',
    body: z.union([
      z.strictObject({ backup: z.string() }),
      z.strictObject({
        /** What was committed by then, as its history has it. */
        at: z.iso.datetime({ offset: true }),
        /** Another resource, whose history it is; default: its own. */
        from: z.string().optional(),
      }),
    ]),
    response: datastoreRestoreSchema,
    summary:
      'Put a backup, or what there was at a moment, in the place of what is in the database; how that goes is told with its backups',
  }),
  cancelRestore: defineRoute({
    method: 'POST',
    path: '/resources/:resource/restore/cancel',
    access: 'anybody',
    response: 'empty',
    summary: 'Withdraw what is to be put back: nothing changes; what has begun is refused, and is left to its end',
  }),
  dismiss: defineRoute({
    method: 'DELETE',
    path: '/resources/:resource/restore',
    access: 'anybody',
    response: 'empty',
    summary:
      'Of a cluster that came back: what could not be put back is to be told of no longer, and it is backed up as it is',
  }),
} as const;
