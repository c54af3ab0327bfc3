/** What a build, or whoever brought an image, left: the record by which a release is made of it. */
import { text } from 'node:stream/consumers';
import type { BlobClient } from '@flynn/blobstore/client';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { type BuildResult, buildResultSchema } from '../model.ts';
import { parseJsonAs } from './image-config.ts';

/** Some kilobytes: of each layer a line. Who makes one keeps to it, and who reads one takes no more into memory. */
export const maxRecordBytes = 1024 * 1024;

/** Throws `invalid` for what is none, `not_found` if it is not stored. */
export async function readBuildRecord(
  blobs: Pick<BlobClient, 'get' | 'stat'>,
  digest: string,
  { signal }: { signal: AbortSignal },
): Promise<BuildResult> {
  const { sizeBytes } = await blobs.stat(digest, { signal });
  if (sizeBytes > maxRecordBytes) throw new FlynnError('invalid', `${digest} is no image: it is too large for one`);
  return parseJsonAs(buildResultSchema, await text(await blobs.get(digest, { signal })), digest);
}

/** Digests of all that it names. */
export function blobsOfRecord({ image, layers }: Pick<BuildResult, 'image' | 'layers'>): string[] {
  const config = image === undefined ? [] : [image.config.digest];
  return [...config, ...layers.map(({ digest }) => digest)];
}

/** The same of several, of builds whose release waits: no artifact names their layers yet. */
export async function blobsOfRecords(
  blobs: Pick<BlobClient, 'get' | 'stat'>,
  digests: readonly string[],
  signal: AbortSignal,
): Promise<readonly string[]> {
  const found: string[] = [];
  for (const digest of new Set(digests)) {
    try {
      found.push(...blobsOfRecord(await readBuildRecord(blobs, digest, { signal })));
    } catch (error) {
      // It is not there, or is none: no release is made of it.
      if (!hasCode(error, 'not_found', 'invalid')) throw error;
    }
  }
  return found;
}
