import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newId, shortId } from './ids.ts';

test('ids are version 7 UUIDs, unique, and sort in the order they were made', () => {
  const ids = Array.from({ length: 20_000 }, () => newId());
  assert.ok(ids.every((id) => /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(id)));
  assert.equal(new Set(ids).size, ids.length);
  assert.deepEqual([...ids].sort(), ids);
});

test('an id begins with the time it was made', () => {
  const before = Date.now();
  const ms = Number.parseInt(newId().replaceAll('-', '').slice(0, 12), 16);
  assert.ok(ms >= before && ms <= Date.now() + 1000);
});

test('short ids are 12 lower-case letters and digits, start with a letter, and differ', () => {
  const ids = Array.from({ length: 5000 }, () => shortId());
  assert.ok(ids.every((id) => /^[a-z][a-z0-9]{11}$/.test(id)));
  assert.equal(new Set(ids).size, ids.length);
});
