/** What a backup says of itself, first of all: which format, of which cluster, of when, and which parts are to follow. */
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { z } from 'zod';
import { platformLimitsSchema } from './platform-limits.ts';

/** Raised when an older flynn could not restore what a newer one writes. */
export const formatVersion = 1;

export const manifestName = 'manifest.json';
/** The last entry: without it the archive was cut. */
export const sealName = 'SHA256';
export const platformName = 'platform.json';
export const auditName = 'audit.ndjson';
const recordsFolder = 'records/';
const blobsFolder = 'blobs/sha256/';

const sha256 = z.string().regex(/^[0-9a-f]{64}$/);
const partSchema = z.object({
  name: z.string().regex(/^[a-z0-9][a-z0-9./-]{0,98}$/),
  sizeBytes: z.int().nonnegative(),
  sha256,
});
export type Part = Readonly<z.output<typeof partSchema>>;

/** Read before all else: of a later format nothing more is known. */
const formatSchema = z.object({ format: z.int().positive(), platformVersion: z.string() });

export const manifestSchema = formatSchema.extend({
  madeAt: z.string(),
  cluster: z.object({
    /** The same for a cluster's life; what is restored of it is another. */
    id: z.string(),
    name: z.string(),
    domain: z.string(),
  }),
  /** Of the store: everything in it is as it was then. */
  revision: z.int(),
  /** Blobs that something refers to and the blob store did not have: left out because somebody said so, or records of builds. */
  missing: z.array(z.string()).default([]),
  /** In their order. */
  parts: z.array(partSchema),
});
export type Manifest = Readonly<z.output<typeof manifestSchema>>;

/** In the meta of a release of the platform's own: which variables are not people's, but the version's of `up` that made it. */
export const variablesMeta = 'flynn.manifest.variables';

/** Beside it: what jobs of its processes might take and where they might be, as that version said, before people set any of it. */
export const limitsMeta = 'flynn.manifest.limits';

/** What only this cluster knows of itself; its keys are among it. */
export const platformSchema = z.object({
  name: z.string(),
  domain: z.string(),
  httpPort: z.int(),
  httpsPort: z.int(),
  /** What `git push` reaches, as a URL. */
  gitUrl: z.string(),
  /** Whether nothing was sent in clear between its hosts; a backup of before does not tell. */
  isEncrypted: z.boolean().optional(),
  /** Of the platform's own apps: what they ran with, but for what every cluster makes anew. */
  apps: z.record(
    z.string(),
    z.object({
      env: z.record(z.string(), z.string()),
      /** Of these variables those that were not people's; a backup of before does not tell. */
      given: z.array(z.string()).default([]),
      /** What its jobs might take and where they might be, and what of that was not people's; a backup of before does not tell. */
      limits: platformLimitsSchema.optional(),
      givenLimits: platformLimitsSchema.optional(),
      counts: z.record(z.string(), z.int().nonnegative()),
    }),
  ),
});
export type PlatformPart = Readonly<z.output<typeof platformSchema>>;

export function recordsName(type: string): string {
  return `${recordsFolder}${type}.ndjson`;
}

/** The type of which the part has the records. */
export function typeOfRecords(name: string): string | undefined {
  return name.startsWith(recordsFolder) && name.endsWith('.ndjson')
    ? name.slice(recordsFolder.length, -'.ndjson'.length)
    : undefined;
}

export function blobName(digest: string): string {
  return blobsFolder + digest.replace(/^sha256:/, '');
}

export function digestOfBlob(name: string): string | undefined {
  return name.startsWith(blobsFolder) ? `sha256:${name.slice(blobsFolder.length)}` : undefined;
}

/** `invalid` for what is none, and for one of a later format. */
export function parseManifest(text: string): Manifest {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    throw new FlynnError('invalid', `the backup's manifest is damaged: ${messageOf(error)}`, { cause: error });
  }
  const known = formatSchema.safeParse(json);
  if (known.success && known.data.format > formatVersion) {
    throw new FlynnError(
      'invalid',
      `the backup has format ${known.data.format} and was made by flynn ${known.data.platformVersion}; this one reads formats up to ${formatVersion}: use that version or a later one`,
    );
  }
  const parsed = manifestSchema.safeParse(json);
  if (parsed.success) return parsed.data;
  throw new FlynnError('invalid', `the backup's manifest is damaged: ${z.prettifyError(parsed.error)}`);
}
