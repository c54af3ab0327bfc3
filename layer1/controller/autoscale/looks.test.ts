/** Each type is looked at as often as its own window needs, and all at the same moments. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { intervalOf, nextLookMs, sleepMs } from './looks.ts';

test('there are four looks in a window at least, ten seconds apart at most', () => {
  assert.deepEqual(
    [10_000, 19_999, 20_000, 39_999, 40_000, 3_600_000].map(intervalOf),
    [2_500, 2_500, 5_000, 5_000, 10_000, 10_000],
  );
});

test('moments of rarer looks are moments of the others too, and always later than now', () => {
  assert.deepEqual(
    [0, 1, 9_999, 10_000].map((now) => nextLookMs(now, 10_000)),
    [10_000, 10_000, 10_000, 20_000],
  );
  for (let now = 0; now < 40_000; now += 700) {
    const [often, , rarely] = [2_500, 5_000, 10_000].map((every) => nextLookMs(now, every));
    assert.ok(often !== undefined && rarely !== undefined && often > now && rarely % 2_500 === 0 && often <= rarely);
  }
});

test('nobody sleeps longer than a look is away, but where there is nothing to look at', () => {
  assert.deepEqual(
    [7_000, 5_000, 4_000, 6 * 3_600_000, Infinity].map((next) => sleepMs(next, 5_000)),
    [2_000, 0, 0, 10_000, 3_600_000],
  );
});
