/** Where this store keeps its blobs: on its disk or in a bucket, as the settings say, and moved there if they were elsewhere. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { systemClock } from '@flynn/kit/clock';
import { FlynnError, hasCode, messageOf } from '@flynn/kit/errors';
import { readJsonFile, writeFileAtomic } from '@flynn/kit/files';
import type { Logger } from '@flynn/kit/log';
import { withDeadline } from '@flynn/kit/retry';
import { z } from 'zod';
import type { Config } from './config.ts';
import { openDirectory } from './filesystem.ts';
import { Moving } from './moving.ts';
import type { OwnReplica } from './replica.ts';
import { S3Client } from './s3/client.ts';
import { S3Replica } from './s3/replica.ts';

export type Place = {
  own: OwnReplica;
  /** A bucket's name, when blobs are kept in one. */
  shared?: string;
  moving?: Moving;
};

type Settings = Pick<
  Config,
  | 'FLYNN_STORAGE_DIR'
  | 'FLYNN_COPY_MB_PER_SECOND'
  | 'BLOB_S3_URL'
  | 'BLOB_S3_ENDPOINT'
  | 'BLOB_S3_REGION'
  | 'AWS_ACCESS_KEY_ID'
  | 'AWS_SECRET_ACCESS_KEY'
  | 'BLOB_KEEP_ON'
>;

type Options = { log: Logger; onDamaged: (digest: string) => void };

/**
 * From before the first blob is put into a bucket until all are back on the disk. `isMoved`: the disk has nothing that the
 * bucket has not.
 */
const bucketSchema = z.object({ name: z.string(), isMoved: z.boolean() });
type KnownBucket = z.output<typeof bucketSchema>;
const bucketFile = (dir: string): string => join(dir, 'bucket.json');

/** A start waits no longer for a service that is away. */
const checkMs = 10_000;
/** Longer than somebody waits who asks for a blob; then it is `unavailable`. */
const patienceMs = 20_000;

/**
 * Nothing is begun that could lose sight of a blob: `conflict` when some of this host are in a bucket that the settings
 * do not name. `denied`, `not_found` or `invalid` when the bucket does not let it in, with what to do.
 */
export async function openPlace(settings: Settings, { log, onDamaged }: Options): Promise<Place> {
  const dir = settings.FLYNN_STORAGE_DIR;
  const disk = await openDirectory(dir, { nowMs: Date.now() });
  const bucket = bucketOf(settings, { dir, onDamaged });
  const known = await readJsonFile(bucketFile(dir), bucketSchema);
  if (known !== undefined && known.name !== bucket?.name) {
    throw new FlynnError(
      'conflict',
      `blobs of this host are in ${known.name}: set BLOB_S3_URL and what opens it as they were; with BLOB_KEEP_ON=disk they are moved back`,
    );
  }
  if (bucket === undefined) return { own: disk };
  await checkBucket(bucket.replica, bucket.name, log);
  const remember = (isMoved: boolean) =>
    writeFileAtomic(bucketFile(dir), JSON.stringify({ name: bucket.name, isMoved } satisfies KnownBucket));
  const common = { clock: systemClock, log, bytesPerSecond: settings.FLYNN_COPY_MB_PER_SECOND * 1024 ** 2 };
  if (settings.BLOB_KEEP_ON === 'disk') {
    await remember(false);
    const names = { to: 'the disk', from: bucket.name };
    const onMoved = () => rm(bucketFile(dir), { force: true });
    const moving = new Moving({ ...common, to: disk, from: bucket.replica, names, onMoved });
    return { own: moving, moving };
  }
  if (known?.isMoved === true) return { own: bucket.replica, shared: bucket.name };
  await remember(false);
  const names = { to: bucket.name, from: 'the disk' };
  const moving = new Moving({ ...common, to: bucket.replica, from: disk, names, onMoved: () => remember(true) });
  return { own: moving, moving, shared: bucket.name };
}

function bucketOf(
  settings: Settings,
  { dir, onDamaged }: { dir: string } & Pick<Options, 'onDamaged'>,
): { name: string; replica: S3Replica } | undefined {
  const { BLOB_S3_URL: url, BLOB_S3_REGION: region } = settings;
  if (url === undefined) return undefined;
  const { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey } = settings;
  if (accessKeyId === undefined || secretAccessKey === undefined) {
    throw new FlynnError('invalid', `what opens ${url}? Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY beside it`);
  }
  const endpoint = settings.BLOB_S3_ENDPOINT ?? `https://s3.${region}.amazonaws.com`;
  const [bucket = '', ...path] = url
    .slice('s3://'.length)
    .split('/')
    .filter((part) => part !== '');
  const folder = path.map((part) => `${part}/`).join('');
  const client = new S3Client({ endpoint, region, bucket }, { accessKeyId, secretAccessKey }, { folder, patienceMs });
  const replica = new S3Replica({ client, spoolDir: join(dir, 'tmp'), clock: systemClock, onDamaged });
  return { name: `s3://${bucket}/${folder} at ${endpoint}`, replica };
}

/** A service that is away comes back; one that refuses does so until somebody changes something. */
async function checkBucket(replica: S3Replica, name: string, log: Logger): Promise<void> {
  try {
    await replica.check(withDeadline(checkMs));
  } catch (error) {
    if (!hasCode(error, 'unavailable', 'timeout')) throw error;
    log.warn(`${name} does not answer: ${messageOf(error)}; blobs wait until it does`);
    return;
  }
  try {
    await replica.clear(withDeadline(checkMs));
  } catch (error) {
    log.warn(`what killed stores left in ${name} could not be removed: ${messageOf(error)}; it costs room only`);
  }
}
