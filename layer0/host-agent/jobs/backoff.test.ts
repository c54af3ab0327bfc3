import assert from 'node:assert/strict';
import { test } from 'node:test';
import { countFailures, restartDelayMs, startPatience } from './backoff.ts';

test('the first restart is immediate, the following wait 1, 2, 4 and at most 60 s', () => {
  const delays = [1, 2, 3, 4, 5, 6, 7, 8, 9, 1000].map(restartDelayMs);
  assert.deepEqual(delays, [0, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000, 60_000]);
});

test('a run of a minute makes the next failure the first again', () => {
  assert.equal(countFailures(5, 59_999), 6);
  assert.equal(countFailures(5, 60_000), 1);
  assert.equal(countFailures(0, 10), 1);
});

test('who did not come up in time has twice as long the next time, and four times at most', () => {
  assert.deepEqual([0, 1, 2, 3, 100].map(startPatience), [1, 2, 4, 4, 4]);
});
