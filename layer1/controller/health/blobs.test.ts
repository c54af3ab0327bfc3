import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FlynnError } from '@flynn/kit/errors';
import { blobCheck, blobFindings } from './blobs.ts';

const now = Date.parse('2026-06-01T12:00:00Z');
const minutesAgo = (minutes: number) => now - minutes * 60_000;
const digest = `sha256:${'a'.repeat(64)}`;
const none = { count: 0, bytes: 0, digests: [] };
const lack = (minutes: number, count = 1) => ({ count, bytes: 3e6, since: minutesAgo(minutes), digests: [digest] });
const whole = { missing: none, damaged: none, comparedAt: now };

test('stores that have the same are no finding, nor one that has just begun to fill itself', () => {
  const filling = { ...whole, missing: lack(9) };
  assert.deepEqual(
    blobFindings(
      {
        stores: [
          { host: 'h1', status: whole },
          { host: 'h2', status: filling },
        ],
      },
      now,
    ),
    [],
  );
  assert.deepEqual(blobFindings({ stores: [{ host: 'h1', status: { ...whole, comparedAt: 0 } }] }, now), []);
});

test('blobs with a copy less are named with their store and since when', () => {
  const stores = [
    { host: 'h1', status: whole },
    // It has copied since: it compares itself again when it is through.
    { host: 'h2', status: { ...whole, missing: lack(10, 7), comparedAt: minutesAgo(300) } },
  ];
  const [found, ...more] = blobFindings({ stores }, now);
  assert.ok(found);
  assert.deepEqual(more, []);
  assert.deepEqual(
    [found.severity, found.subject, found.since],
    ['warning', 'blob store on h2', '2026-06-01T11:50:00.000Z'],
  );
  assert.equal(found.what, `it has yet to get 7 blobs (3 MiB) that another store has: ${digest}, …`);
});

test('one that no store has whole is critical; one that does not answer, or was not compared, is told', () => {
  const stores = [
    { host: 'h1', status: { ...whole, damaged: lack(1) } },
    { host: 'h2', problem: 'cannot reach it' },
    { host: 'h3', status: { ...whole, comparedAt: minutesAgo(120) } },
  ];
  assert.deepEqual(
    blobFindings({ stores }, now).map(({ severity, subject, what }) => `${severity} ${subject}: ${what}`),
    [
      `critical blob store on h1: its disk damaged 1 blob (3 MiB), and no other store has them: ${digest}`,
      'warning blob store on h2: it does not answer the others: cannot reach it',
      'warning blob store on h3: it could not compare itself with all others',
    ],
  );
});

test('a move to a bucket that does not get on is told, one that has just begun is not', () => {
  const moving = (minutes: number) => ({ to: 's3://b/', left: lack(minutes, 2) });
  const storesWith = (minutes: number) => [{ host: 'h1', status: { ...whole, moving: moving(minutes) } }];
  assert.deepEqual(blobFindings({ stores: storesWith(9) }, now), []);
  const [found] = blobFindings({ stores: storesWith(10) }, now);
  assert.equal(found?.what, `it has yet to move 2 blobs (3 MiB) to s3://b/: ${digest}, …`);
});

test('what a disk damaged and was replaced is told for the disk’s sake', () => {
  const [found] = blobFindings({ stores: [{ host: 'h1', status: { ...whole, replaced: lack(60) } }] }, now);
  assert.equal(found?.severity, 'warning');
  assert.match(found.what, /^its disk damaged 1 blob .*replaced from another store/);
  assert.deepEqual(blobFindings({ stores: [{ host: 'h1', status: { ...whole, replaced: none } }] }, now), []);
});

test('what a bucket damaged is told with its name', () => {
  const [found] = blobFindings(
    { stores: [{ host: 'h1', status: { ...whole, damaged: lack(1), place: 's3://b/' } }] },
    now,
  );
  assert.match(found?.what ?? '', /^s3:\/\/b\/ damaged 1 blob/);
});

test('that no store answers is told elsewhere; another failure is not passed over', async () => {
  const failing = (code: 'unavailable' | 'internal') =>
    blobCheck({ replication: () => Promise.reject(new FlynnError(code, 'no')) }, () => now);
  const { signal } = new AbortController();
  assert.deepEqual(await failing('unavailable').find(signal), []);
  await assert.rejects(async () => failing('internal').find(signal), /no/);
});
