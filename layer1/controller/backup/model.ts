/** Backups as people see them. */
import { z } from 'zod';

/** `retrying`: it failed, and is tried again soon. */
export const backupStates = ['running', 'retrying', 'complete', 'failed'] as const;

/** A bucket of a service that speaks S3. Names of files begin with the prefix. */
export const s3PlaceSchema = z.object({
  endpoint: z.url({ protocol: /^https?$/, error: 'expected the URL of the S3 service, like https://s3.example.com' }),
  region: z.string().min(1).max(100),
  bucket: z
    .string()
    .regex(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, 'a bucket has 3 to 63 lower-case letters, digits, dots and dashes'),
  prefix: z.string().max(500),
  accessKeyId: z.string().min(1).max(500),
  /** The name is one that the audit trail hides. */
  secret: z.string().min(1).max(1_000),
});
export type S3Place = z.output<typeof s3PlaceSchema>;

/** A directory of a host, or a bucket. */
export const targetSchema = z.union([
  /** `mount`: where what the directory is on was mounted when it was chosen, if it was. */
  z.object({ host: z.string(), directory: z.string(), mount: z.string().optional() }),
  z.object({ s3: s3PlaceSchema }),
]);
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

/** Without what opens it. */
export function targetText(to: TargetAddress): string {
  if (!('s3' in to)) return `${to.host}:${to.directory}`;
  const { bucket, prefix } = to.s3;
  return `s3://${[bucket, prefix].filter((part) => part !== '').join('/')}`;
}
