import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dueInMs } from './due.ts';

test('a moment is due when it is there, and at once if no clock that was right can have set it', () => {
  const dues = [900, 1_000, 1_400, 1_500, 1_501, 9_000_000].map((atMs) => dueInMs(atMs, 1_000, 500));
  assert.deepEqual(dues, [0, 0, 400, 500, 0, 0]);
});
