/** The API of backups. */
import { archiveType, defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';
import { backupScheduleSchema, backupSchema, s3PlaceSchema } from './model.ts';

export const backups = {
  /** A POST, for it is in the audit trail: who has the answer has all keys of the cluster. */
  download: defineRoute({
    method: 'POST',
    path: '/backups/download',
    body: z.object({ mayMiss: z.boolean().default(false) }),
    response: 'stream',
    responseType: archiveType,
    summary: 'Everything people made on the cluster, its keys included, as one archive',
  }),
  dump: defineRoute({
    method: 'POST',
    path: '/backups/datastores',
    /** `only`: those of these names that have none yet. Default: all. */
    body: z.object({ only: z.array(z.string()).max(1_000).optional() }).default({}),
    response: z.array(
      z.object({
        /** Its app's name. */
        datastore: z.string(),
        resource: z.string(),
        backup: z.string(),
        /** How often it was tried before: what comes after that is the answer. */
        attempt: z.int(),
        /** Had begun before it was asked for: any other that is complete will do. None of a controller of before. */
        earlier: z.array(z.string()).optional(),
      }),
    ),
    summary:
      "Have a fresh backup made of each of the platform's own databases: a backup of the cluster has the newest in it",
  }),
  list: defineRoute({
    method: 'GET',
    path: '/backups',
    response: z.object({ schedule: backupScheduleSchema.optional(), backups: z.array(backupSchema) }),
    summary: 'When backups are made and where they go, and how they went, the newest first',
  }),
  run: defineRoute({
    method: 'POST',
    path: '/backups',
    response: z.object({
      /** It is done when there is one that is newer than this, and ended. */
      after: z.string().optional(),
    }),
    summary: 'Make one now, to where the schedule has them',
  }),
  schedule: defineRoute({
    method: 'PUT',
    path: '/backups/schedule',
    body: z.object({
      /** As a crontab has it: `0 3 * * *`. */
      schedule: z.string().max(200),
      /** Default: UTC. */
      timezone: z.string().max(100).optional(),
      to: z.union([
        z.object({
          /** May be left out where there is one host. */
          host: z.string().optional(),
          /** It has to be there. */
          directory: z
            .string()
            .max(500)
            .regex(/^\/\S*$/, 'expected an absolute path'),
        }),
        z.object({ s3: s3PlaceSchema }),
      ]),
      /** So many of the newest; older ones are removed. */
      keep: z.int().min(1).max(1_000).default(14),
      /** What they are encrypted with. */
      passphrase: z.string().min(8).max(1_000).optional(),
    }),
    response: backupScheduleSchema,
    summary: 'Make backups by themselves from now on; what was said before is replaced',
  }),
  unschedule: defineRoute({
    method: 'DELETE',
    path: '/backups/schedule',
    response: 'empty',
    summary: 'Make none by themselves any more; those that are there stay',
  }),
} as const;
