import assert from 'node:assert/strict';
import { test } from 'node:test';
import { getHeapStatistics } from 'node:v8';
import { fullCollection, isWorthCollecting, keepHeapSmall } from './idle-memory.ts';

const mebibyte = 2 ** 20;

test('an idle heap that has grown is collected; not a busy, a large or an unchanged one', () => {
  const grown = { bytes: 50 * mebibyte, bytesAfterLast: 35 * mebibyte, busyShare: 0.01, sinceLastMs: 30_000 };
  assert.equal(isWorthCollecting(grown), true);
  assert.equal(isWorthCollecting({ ...grown, bytesAfterLast: 0 }), true);
  assert.equal(isWorthCollecting({ ...grown, busyShare: 0.3 }), false);
  assert.equal(isWorthCollecting({ ...grown, bytes: 400 * mebibyte }), false);
  assert.equal(isWorthCollecting({ ...grown, bytes: 38 * mebibyte }), false);
  assert.equal(
    isWorthCollecting({ ...grown, bytes: 40 * mebibyte, sinceLastMs: 150_000 }),
    true,
    'after a while a little',
  );
  assert.equal(isWorthCollecting({ ...grown, bytes: 38 * mebibyte, sinceLastMs: 150_000 }), false);
  assert.equal(isWorthCollecting({ ...grown, idleShare: 0.005 }), false, 'a hundredth is much for those who wait');
});

test('a collection gives the pages of what is gone back', () => {
  const collect = fullCollection();
  let much: object[] = Array.from({ length: 300_000 }, (_, at) => ({ at }));
  const before = getHeapStatistics().total_heap_size;
  assert.equal(much.length, 300_000);
  much = [];
  collect();
  assert.ok(getHeapStatistics().total_heap_size < before - 4 * mebibyte);
});

test('it ends when it is told to', async () => {
  const stop = new AbortController();
  const running = keepHeapSmall(stop.signal);
  stop.abort();
  await running;
});
