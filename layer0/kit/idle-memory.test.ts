import assert from 'node:assert/strict';
import { test } from 'node:test';
import { getHeapCodeStatistics, getHeapStatistics } from 'node:v8';
import { runInThisContext } from 'node:vm';
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

for (const keepsCode of [false, true]) {
  test(`code that has not run since the last collection ${keepsCode ? 'stays for who asks for it' : 'goes, and runs again'}`, () => {
    const collect = fullCollection({ keepsCode });
    const bytes = () => getHeapCodeStatistics().bytecode_and_metadata_size;
    collect();
    const before = bytes();
    const body = Array.from({ length: 20 }, (_, at) => `if (x === ${at}) return x * ${at} + String(x).length;`).join(
      '',
    );
    const texts = Array.from({ length: 1_000 }, (_, at) => `(x) => { ${body} return x + ${at}; }`);
    const functions = texts.map((text): ((x: number) => unknown) => runInThisContext(text));
    const sum = () => functions.reduce((total, one) => total + Number(one(100)), 0);
    const expected = sum();
    const made = bytes() - before;
    collect();
    const kept = bytes() - before;
    assert.ok(keepsCode ? kept > made * 0.7 : kept < made * 0.3, `${kept} of ${made} bytes are left`);
    assert.equal(sum(), expected);
  });
}

test('it ends when it is told to', async () => {
  const stop = new AbortController();
  const running = keepHeapSmall(stop.signal);
  stop.abort();
  await running;
});
