import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { loadConfig } from '@flynn/kit/config';
import { silentLogger } from '@flynn/kit/log';
import { configSchema } from './config.ts';
import { openPlace } from './place.ts';
import { startTestS3 } from './s3/testing-s3.ts';
import { chunks, textOf } from './testing.ts';

const never = new AbortController().signal;

test('blobs go from the disk to a bucket and back by settings alone, and none is lost sight of meanwhile', async (t) => {
  await using s3 = await startTestS3();
  const dir = await mkdtemp(join(tmpdir(), 'flynn-place-'));
  t.after(() => rm(dir, { recursive: true }));
  const open = (env: Record<string, string>) => {
    const settings = loadConfig(configSchema, { FLYNN_KEY: 'k', FLYNN_STORAGE_DIR: dir, ...env });
    return openPlace(settings, { log: silentLogger(), onDamaged: assert.fail });
  };
  const bucket = {
    BLOB_S3_URL: `s3://${s3.bucket.bucket}/flynn/`,
    BLOB_S3_ENDPOINT: s3.bucket.endpoint,
    BLOB_S3_REGION: s3.bucket.region,
    AWS_ACCESS_KEY_ID: s3.credentials.accessKeyId,
    AWS_SECRET_ACCESS_KEY: s3.credentials.secretAccessKey,
  };
  const moveBack = { ...bucket, BLOB_KEEP_ON: 'disk' };

  const onDisk = await open({});
  const { digest: first } = await onDisk.own.put(chunks('first'), {});

  const there = await open(bucket);
  assert.equal(await textOf((await there.own.open(first)).body), 'first');
  // Not even in the middle of it is the bucket given up: what came meanwhile is there.
  const isRefused = (error: unknown) =>
    hasCode(error, 'conflict') && /are in s3:\/\/backups\/flynn/.test(error.message);
  await assert.rejects(open({}), isRefused);
  await there.moving?.run(never);
  const keys = [...s3.objects.keys()];
  assert.ok(keys.length > 0 && keys.every((key) => key.startsWith('flynn/')));

  s3.uploads.set('killed', new Map());
  s3.begun.set('killed', { key: 'flynn/blobs/ab/bytes-1', at: 0 });
  const inBucket = await open(bucket);
  assert.equal(s3.uploads.size, 0, 'what a killed store had sent is gone');
  assert.equal(inBucket.moving, undefined);
  const { digest: second } = await inBucket.own.put(chunks('second'), {});
  assert.equal(await textOf((await inBucket.own.open(first)).body), 'first');

  await assert.rejects(open({}), isRefused);
  await assert.rejects(open({ ...bucket, BLOB_S3_URL: 's3://backups/other' }), isRefused);
  await assert.rejects(open({ BLOB_S3_URL: bucket.BLOB_S3_URL }), /Set AWS_ACCESS_KEY_ID/);
  await assert.rejects(open({ ...bucket, AWS_SECRET_ACCESS_KEY: 'x' }), (error) => hasCode(error, 'denied'));

  const back = await open(moveBack);
  assert.equal(await textOf((await back.own.open(second)).body), 'second');
  await assert.rejects(open({}), isRefused);
  await back.moving?.run(never);
  s3.objects.clear();
  const home = await open({});
  assert.equal(await textOf((await home.own.open(first)).body), 'first');
  assert.equal(await textOf((await home.own.open(second)).body), 'second');
});
