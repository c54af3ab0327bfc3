/** What is in an archive, and could it be restored by this version? Everything is read and compared, and nothing is changed. */
import { text } from 'node:stream/consumers';
import { Readable } from 'node:stream';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { readArchive } from './archive.ts';
import type { ArchiveFacts, Bytes } from './archive.ts';
import { digestOfBlob, platformName, platformSchema } from './manifest.ts';
import type { PlatformPart } from './manifest.ts';
import { recordsOf } from './records.ts';

export type Inspection = ArchiveFacts &
  Readonly<{
    platform: PlatformPart;
    /** By the names of their parts. */
    records: Readonly<Record<string, number>>;
    blobs: number;
    /** All parts together. */
    sizeBytes: number;
  }>;

/** Nothing is made of what is read. */
const nowhere = { nowMs: 0, slugRunnerImage: 'none', applianceImages: [] };

/** `invalid` for whatever could not be restored whole. */
export async function inspectArchive(source: Bytes): Promise<Inspection> {
  const records: Record<string, number> = {};
  let platform: PlatformPart | undefined;
  let blobs = 0;
  let sizeBytes = 0;
  const facts = await readArchive(source, async (part, body) => {
    sizeBytes += part.sizeBytes;
    if (part.name === platformName) platform = parsePlatform(await text(Readable.from(body)));
    else if (digestOfBlob(part.name) !== undefined) blobs += 1;
    else {
      let count = 0;
      for await (const _ of recordsOf(part, body, nowhere)) count += 1;
      records[part.name] = count;
    }
  });
  if (platform === undefined) throw new FlynnError('invalid', `the backup lacks ${platformName}`);
  return { ...facts, platform, records, blobs, sizeBytes };
}

function parsePlatform(json: string): PlatformPart {
  try {
    return platformSchema.parse(JSON.parse(json));
  } catch (error) {
    throw new FlynnError('invalid', `${platformName} of the backup is not usable: ${messageOf(error)}`, {
      cause: error,
    });
  }
}
