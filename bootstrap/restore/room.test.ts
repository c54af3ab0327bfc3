import assert from 'node:assert/strict';
import { test } from 'node:test';
import { judgeRoom } from './room.ts';

const gigabyte = 1000 ** 3;
const disks = (free: number) => [
  { path: '/var/lib/flynn', freeBytes: 1_000 * gigabyte },
  { path: '/var/lib/docker', freeBytes: free * gigabyte },
];

function backupWith(blobs: Record<string, string>) {
  const ports = { httpPort: 80, httpsPort: 443, gitUrl: 'ssh://git@apps.example.com' };
  const apps = { blobstore: { env: blobs, given: [], counts: {} } };
  return { sizeBytes: 40 * gigabyte, platform: { name: 'old', domain: 'apps.example.com', ...ports, apps } };
}

test('a machine without the room for what is in a backup is told before anything is made', () => {
  const [problem] = judgeRoom({ disks: disks(41), isHost: false }, backupWith({}));
  assert.match(problem?.what ?? '', /^41\.0 GB free at \/var\/lib\/docker; what is in the backup takes 40\.0 GB/);
  assert.deepEqual(judgeRoom({ disks: disks(60), isHost: false }, backupWith({})), []);
  assert.deepEqual(judgeRoom({ disks: disks(41), isHost: true }, backupWith({})), [], 'some of it is here already');
});

test('blobs that are in a bucket need no room here', () => {
  const told = (env: Record<string, string>) => judgeRoom({ disks: disks(41), isHost: false }, backupWith(env)).length;
  assert.equal(told({ BLOB_S3_URL: 's3://bucket/folder' }), 0);
  assert.equal(told({ BLOB_S3_URL: 's3://bucket/folder', BLOB_KEEP_ON: 'disk' }), 1);
});
