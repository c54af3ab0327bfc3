/** Backups as people see them. */
import { z } from 'zod';

/** `retrying`: it failed, and is tried again soon. */
export const backupStates = ['running', 'retrying', 'complete', 'failed'] as const;

/** A directory of a host. */
export const targetSchema = z.object({ host: z.string(), directory: z.string() });
export type TargetAddress = z.output<typeof targetSchema>;

export const madeSchema = z.object({ at: z.string(), file: z.string(), sizeBytes: z.int() });

export const backupSchema = z.object({
  id: z.string(),
  state: z.enum(backupStates),
  file: z.string(),
  to: z.string(),
  attempt: z.int(),
  startedAt: z.string(),
  endedAt: z.string().optional(),
  sizeBytes: z.int().optional(),
  sha256: z.string().optional(),
  error: z.string().optional(),
});
export type Backup = z.output<typeof backupSchema>;

/** Since then, and how many tries in a row. */
export const failureSchema = z.object({ since: z.string(), count: z.int(), message: z.string() });

export const backupScheduleSchema = z.object({
  schedule: z.string(),
  timezone: z.string().optional(),
  to: z.string(),
  keep: z.int(),
  isEncrypted: z.boolean(),
  nextAt: z.string().optional(),
  lastSuccess: madeSchema.optional(),
  failure: failureSchema.optional(),
});
export type BackupScheduleView = z.output<typeof backupScheduleSchema>;

export function targetText({ host, directory }: TargetAddress): string {
  return `${host}:${directory}`;
}
