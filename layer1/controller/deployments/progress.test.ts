import assert from 'node:assert/strict';
import { test } from 'node:test';
import { jobStatusSchema } from '@flynn/scheduler/cell';
import { UpTimes, findTrouble, upJobs } from './progress.ts';
import { seenStatus } from '@flynn/scheduler/lost-jobs';

const status = jobStatusSchema.parse({
  id: 'h1-a',
  hostId: 'h1',
  workloadId: 'app-r-web',
  version: 'v',
  meta: { 'flynn.release': 'r', 'flynn.type': 'web' },
  state: 'running',
  isFinal: false,
  createdAt: 1,
});

const fates = [
  { title: 'its host is there', host: { isThere: true, isAssigned: false }, up: 1, trouble: undefined },
  { title: 'its host is away', host: { isThere: false, isAssigned: true }, up: 0, trouble: 'its host h1 is away' },
  { title: 'it is lost', host: { isThere: false, isAssigned: false }, up: 0, trouble: undefined },
];

for (const { title, host, up, trouble } of fates) {
  test(`a running job counts as up for its deployment or not: ${title}`, () => {
    const statuses = [seenStatus(status, host)];
    assert.equal(upJobs(statuses, 'r', 'web').length, up);
    assert.equal(findTrouble(statuses, 'r', 'web'), trouble);
  });
}

test('a job is up since it was first seen so, in its present run, without a break', () => {
  const times = new UpTimes();
  const job = { id: 'a', restarts: 0 };
  assert.deepEqual(times.seen('d', [job], 1), [1]);
  assert.deepEqual(times.seen('d', [job, { id: 'b', restarts: 0 }], 5), [1, 5]);
  assert.deepEqual(times.seen('d', [{ id: 'a', restarts: 1 }], 7), [7]);
  assert.deepEqual(times.seen('d', [], 8), []);
  assert.deepEqual(times.seen('d', [{ id: 'a', restarts: 1 }], 9), [9]);
  assert.deepEqual(times.seen('other', [job], 10), [10]);
});

test('a clock that is put back makes nobody wait for when it was', () => {
  const times = new UpTimes();
  const job = { id: 'a', restarts: 0 };
  assert.deepEqual(times.seen('d', [job], 1_000), [1_000]);
  assert.deepEqual(times.seen('d', [job], 10), [10]);
  assert.equal(times.steppedMs('d', 5, 10), 5);
  assert.equal(times.steppedMs('d', 1_000, 10), 10);
  assert.equal(times.steppedMs('d', 1_000, 20), 10);
  assert.equal(times.steppedMs('d', 1_000, 7), 7);
  assert.equal(times.steppedMs('d', 2_000, 30), 30, 'another step was taken');
});

test('a host is away since it was seen to go, or was first asked for, and anew once it has been back', () => {
  const times = new UpTimes();
  times.hostChanged('h1', { isThere: false, nowMs: 5 });
  assert.equal(times.awaySinceMs('h1', 9), 5);
  assert.equal(times.awaySinceMs('h2', 9), 9);
  assert.equal(times.awaySinceMs('h2', 20), 9);
  assert.equal(times.awaySinceMs('h2', 7), 7, 'a clock that stepped back makes nothing longer');
  times.hostChanged('h1', { isThere: true, nowMs: 20 });
  times.hostChanged('h1', { isThere: false, nowMs: 30 });
  assert.equal(times.awaySinceMs('h1', 31), 30);
});
