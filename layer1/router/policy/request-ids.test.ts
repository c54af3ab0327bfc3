import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RequestIds } from './request-ids.ts';

test('ids of requests are random version 4 UUIDs, each another', () => {
  const ids = new RequestIds();
  const all = Array.from({ length: 2_000 }, () => ids.next());
  for (const id of all) assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  assert.equal(new Set(all).size, all.length);
  // Every digit that is left to chance takes every value.
  const fixed = new Set([8, 13, 14, 18, 19, 23]);
  for (let i = 0; i < 36; i += 1) {
    if (!fixed.has(i)) assert.equal(new Set(all.map((id) => id[i])).size, 16, `place ${i}`);
  }
});
