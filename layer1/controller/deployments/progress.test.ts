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

test('what happens to a deployment is of when it was first seen, or as old as it was then', () => {
  const times = new UpTimes();
  assert.equal(times.firstMs('d', 'a step', { nowMs: 5 }), 5);
  assert.equal(times.firstMs('d', 'a step', { nowMs: 9 }), 5);
  assert.equal(times.firstMs('d', 'another', { nowMs: 9, ageMs: 3 }), 6);
  assert.equal(times.firstMs('d', 'another', { nowMs: 20, ageMs: 500 }), 6, 'its clock was put forward');
  assert.equal(
    times.firstMs('d', 'a third', { nowMs: 20, ageMs: -50 }),
    20,
    'by a clock that is ahead it is yet to come',
  );
  times.forget('d');
  assert.equal(times.firstMs('d', 'a step', { nowMs: 30 }), 30);
});

test('a host is away since it was seen to go, or was first asked for, and anew once it has been back', () => {
  let nowMs = 5;
  const times = new UpTimes(() => nowMs);
  times.hostChanged('h1', { isThere: false });
  assert.equal(times.awaySinceMs('h1', 9), 5);
  assert.equal(times.awaySinceMs('h2', 9), 9);
  assert.equal(times.awaySinceMs('h2', 20), 9);
  times.hostChanged('h1', { isThere: true });
  nowMs = 30;
  times.hostChanged('h1', { isThere: false });
  assert.equal(times.awaySinceMs('h1', 31), 30);
});
