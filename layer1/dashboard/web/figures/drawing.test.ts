import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pathOf, roundTop, withoutNothing } from './drawing.ts';

test('a drawing is as high as the next round number, and at least that high', () => {
  const top = (...values: number[]) => roundTop(values, { least: 0.1 });
  assert.deepEqual(
    [top(), top(0.04), top(0.11), top(0.42), top(1), top(1_300)].map((one) => Number(one.toFixed(6))),
    [0.1, 0.1, 0.15, 0.5, 1, 1_500],
  );
  const mebibyte = 1024 ** 2;
  const bytes = (value: number) => roundTop([value * mebibyte], { least: 16 * mebibyte, isBinary: true }) / mebibyte;
  assert.deepEqual([bytes(1), bytes(17), bytes(50), bytes(64), bytes(1_100)], [16, 24, 64, 64, 1_536]);
});

test('a line is broken where nothing is known, what stands alone is a dot, and nothing is drawn outside', () => {
  assert.equal(pathOf([null, 0, 1, 2, null, 1, null], 2), 'M1 100L2 50L3 0M5 50h.01');
  assert.equal(pathOf([4], 2), 'M0 0h.01');
  assert.equal(pathOf([null, null], 2), '');
  assert.equal(pathOf([], 2), '');
});

test('what is rare has no line where it is nothing', () => {
  assert.deepEqual(withoutNothing([0, 0, 3, 0, 0, null, 0, 1]), [null, 0, 3, 0, null, null, 0, 1]);
  assert.deepEqual(withoutNothing([]), []);
});
