import assert from 'node:assert/strict';
import { test } from 'node:test';
import { jobStatusSchema } from '@flynn/scheduler/cell';
import { findTrouble, upCount } from './deployment-progress.ts';
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
    assert.equal(upCount(statuses, 'r', 'web'), up);
    assert.equal(findTrouble(statuses, 'r', 'web'), trouble);
  });
}
