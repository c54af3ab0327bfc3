import assert from 'node:assert/strict';
import { test } from 'node:test';
import { placeOf } from './backup-place.ts';

const keys = { AWS_ACCESS_KEY_ID: 'ID', AWS_SECRET_ACCESS_KEY: 'SECRET' };

test('a directory is of a host', () => {
  assert.deepEqual(placeOf({ to: 'dir:/mnt/b', host: 'h1' }, {}), { directory: '/mnt/b', host: 'h1' });
  assert.deepEqual(placeOf({ to: 'dir:/mnt/b' }, keys), { directory: '/mnt/b' });
  assert.throws(() => placeOf({ to: 'dir:/mnt/b', region: 'x' }, {}), /--endpoint and --region are of s3/);
});

test('a bucket is AWS’s unless the service is named, and what opens it is in the environment', () => {
  const opened = { accessKeyId: 'ID', secret: 'SECRET' };
  assert.deepEqual(placeOf({ to: 's3://backups' }, keys), {
    s3: {
      endpoint: 'https://s3.us-east-1.amazonaws.com',
      region: 'us-east-1',
      bucket: 'backups',
      prefix: '',
      ...opened,
    },
  });
  const own = { to: 's3://backups/flynn/prod/', endpoint: 'https://s3.example.com', region: 'garage' };
  const place = { endpoint: 'https://s3.example.com', region: 'garage', bucket: 'backups', prefix: 'flynn/prod' };
  assert.deepEqual(placeOf(own, keys), { s3: { ...place, ...opened } });
  const environment = { ...keys, AWS_REGION: 'garage', AWS_ENDPOINT_URL: 'https://s3.example.com' };
  assert.deepEqual(placeOf({ to: 's3://backups/flynn/prod' }, environment), { s3: { ...place, ...opened } });
  assert.throws(() => placeOf({ to: 's3://backups' }, {}), /Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY/);
  assert.throws(() => placeOf({ to: 's3://backups', host: 'h1' }, keys), /reached from every host/);
});

test('anything else is no place', () => {
  for (const to of ['ftp://x', 's3:backups', 'dir:relative', '/mnt', undefined]) {
    assert.throws(() => placeOf(to === undefined ? {} : { to }, keys), /is no place for backups/);
  }
});
