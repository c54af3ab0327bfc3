/** What the controller keeps of backups: when they are made and where they go, and how each went. */
import { defineType } from '@flynn/resource/type';
import type { Resource } from '@flynn/resource/type';
import { z } from 'zod';
import { backupSchema, failureSchema, madeSchema, targetSchema } from './model.ts';

/** There is one object, called this. */
export const scheduleId = 'schedule';

const scheduleSpec = z.object({
  /** As a crontab has it. */
  schedule: z.string(),
  timezone: z.string().optional(),
  to: targetSchema,
  keep: z.int().min(1).max(1_000),
  /** What they are encrypted with. The name is one that the audit trail hides. */
  secret: z.string().optional(),
});
const scheduleStatus = z.object({
  /** Ticks up to and with this moment are dealt with. */
  handledMs: z.int(),
  /** Somebody wants one now. */
  isWanted: z.boolean().optional(),
  /** One that is not through: it is tried again then, unless it ends well before. */
  pending: z.object({ tickMs: z.int(), attempt: z.int(), nextMs: z.int() }).optional(),
  lastSuccess: madeSchema.optional(),
  failure: failureSchema.optional(),
});

export const backupScheduleType = defineType({
  name: 'backup-schedule',
  version: 1,
  spec: scheduleSpec,
  status: scheduleStatus,
  initialStatus: () => ({ handledMs: 0 }),
  cascades: false,
});
export type BackupSchedule = Resource<z.output<typeof scheduleSpec>, z.output<typeof scheduleStatus>>;

const backupSpec = z.object({ file: z.string(), to: z.string(), tickMs: z.int() });
const backupStatus = backupSchema.omit({ id: true, file: true, to: true });

/** Its id is its tick's. */
export const backupType = defineType({
  name: 'backup',
  version: 1,
  spec: backupSpec,
  status: backupStatus,
  initialStatus: () => ({ state: 'running' as const, attempt: 1, startedAt: '' }),
  cascades: false,
});
export type BackupResource = Resource<z.output<typeof backupSpec>, z.output<typeof backupStatus>>;
