import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hostSettingsSchema } from './cell.ts';
import { cordoned, drained, opened, undrained } from './operator-settings.ts';

const tags = { zone: 'a' };
const open = hostSettingsSchema.parse({ tags });
const closed = hostSettingsSchema.parse({ cordoned: true, tags });

test('a drain that is called off leaves a host as open as it found it', () => {
  for (const before of [open, closed]) {
    const draining = drained(before, {}, 5_000);
    assert.equal(draining.cordoned, before.cordoned);
    assert.deepEqual(undrained(draining), before);
    assert.deepEqual(undrained(before), before);
  }
});

test('who was cordoned while it drained stays so, and who is opened does not drain', () => {
  assert.deepEqual(undrained(cordoned(drained(open, {}, 5_000))), closed);
  assert.deepEqual(opened(drained(closed, {}, 5_000)), open);
  assert.deepEqual(cordoned(open), closed);
});

test('what a version before cordoned along with its drain is open once that ends, asked for again meanwhile or not', () => {
  const old = hostSettingsSchema.parse({ cordoned: true, tags, drain: { startedAt: 1_000, maxParallel: 2 } });
  assert.deepEqual(undrained(old), open);
  assert.deepEqual(undrained(drained(old, { maxParallel: 3 }, 5_000)), open);
  assert.deepEqual(undrained(cordoned(old)), closed);
});

test('asked for again a drain keeps its beginning and what is not asked for anew', () => {
  const first = drained(open, { deadlineMs: 60_000, maxParallel: 4 }, 5_000);
  const drain = { startedAt: 5_000, deadlineAt: 65_000, maxParallel: 4, leavesCordon: true };
  assert.deepEqual(first.drain, drain);
  assert.deepEqual(drained(first, {}, 9_000).drain, drain);
  assert.deepEqual(drained(first, { maxParallel: 2 }, 9_000).drain, { ...drain, maxParallel: 2 });
  assert.deepEqual(drained(first, { deadlineMs: 1_000 }, 9_000).drain, { ...drain, deadlineAt: 10_000 });
  assert.equal(drained(open, {}, 9_000).drain?.maxParallel, 1);
});
