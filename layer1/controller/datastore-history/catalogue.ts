/**
 * What a history consists of, beside it in the blob store and encrypted as it is. Records go with their cluster, a bucket does not:
 * a cluster that comes back, from a backup with the key and onto the same bucket, goes on from what it finds there.
 */
import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { gunzipSync, gzipSync } from 'node:zlib';
import { isDamaged } from '@flynn/blobstore/client';
import type { BlobClient } from '@flynn/blobstore/client';
import { hasCode } from '@flynn/kit/errors';
import { z } from 'zod';
import { openDump, storeSealed } from '../datastore-backups/making.ts';
import { blobsOfArchive } from './pieces.ts';
import { archiveStatusSchema, endSchema, pieceSchema } from './types.ts';
import type { Archive, HistoryStatus } from './types.ts';

export type HistoryBlobs = Pick<BlobClient, 'put' | 'get' | 'stat' | 'putName' | 'getName'>;

/** So far behind is what it says of a datastore that nothing is written to. */
const untilEveryMs = 3_600_000;

/** Names of blobs that begin so are catalogues, and end with an app's id. */
export const catalogueNames = 'history';

const catalogueSchema = z.object({
  version: z.literal(1),
  run: z.int(),
  archive: archiveStatusSchema,
  recent: z.array(pieceSchema),
  untilMs: z.int().optional(),
  ended: z.array(endSchema).optional(),
});

type Listed = Pick<HistoryStatus, 'run' | 'recent' | 'untilMs' | 'ended'>;
type Options = Readonly<{ secret: string; signal: AbortSignal }>;

/** Another where something else is in it. */
export function markOf(archive: Archive, { run, recent, untilMs = 0, ended = [] }: Listed): string {
  const ready = archive.bases.map(({ readyMs = 0 }) => readyMs);
  const ends = [Math.floor(untilMs / untilEveryMs), ...ended.map((one) => one.untilMs)];
  const lost = [...archive.bases, ...archive.pieces].filter(({ isLost }) => isLost).length;
  const all = [run, ...blobsOfArchive(archive), ...ready, ...recent.map(({ digest }) => digest), ...ends, lost];
  return createHash('sha256').update(all.join(' ')).digest('base64url').slice(0, 16);
}

/** The one before is nobody's then, and is collected. */
export async function writeCatalogue(
  blobs: HistoryBlobs,
  appId: string,
  { archive, run, recent, untilMs, ended }: Listed & { archive: Archive },
  { secret, signal }: Options,
): Promise<void> {
  const content: z.input<typeof catalogueSchema> = {
    version: 1,
    run,
    archive,
    recent,
    ...(untilMs === undefined ? {} : { untilMs }),
    ...(ended === undefined ? {} : { ended }),
  };
  const source = Readable.from([gzipSync(JSON.stringify(content))]);
  const { digest } = await storeSealed(blobs, source, { secret, signal });
  await blobs.putName(`${catalogueNames}/${appId}`, digest, { signal });
}

/** Undefined where there is none, where it is damaged, and where it is another's: of another key, or of a later version. */
export async function readCatalogue(
  blobs: Pick<HistoryBlobs, 'get' | 'getName'>,
  appId: string,
  { secret, signal }: Options,
): Promise<(Listed & { archive: Archive }) | undefined> {
  const named = await blobs.getName(`${catalogueNames}/${appId}`, { signal });
  if (named === undefined) return undefined;
  try {
    const content = await buffer(await openDump(blobs, { digest: named.digest, secret }, signal));
    return catalogueSchema.safeParse(JSON.parse(gunzipSync(content).toString())).data;
  } catch (error) {
    // Not each `internal` says so: what a store answers that fails for a moment is no reason to begin anew.
    if (hasCode(error, 'invalid', 'not_found') || isDamaged(error)) return undefined;
    throw error;
  }
}
