import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { Ring, stepsKept } from './ring.ts';

const nan = Number.NaN;

function ringOf(notes: readonly (readonly [step: number, value: number])[]): Ring<'a' | 'b'> {
  const ring = new Ring(['a', 'b']);
  for (const [step, value] of notes) ring.note(step, { a: value, b: -value });
  return ring;
}

test('each field is told for the moment it was noted at, and what was passed over is not known', () => {
  const ring = ringOf([
    [1_000, 1],
    [1_001, 2],
    [1_004, 3],
  ]);
  assert.deepEqual(ring.column('a', 999, 1_005), [nan, 1, 2, nan, nan, 3, nan]);
  assert.deepEqual(ring.column('b', 1_004, 1_004), [-3]);
  assert.deepEqual(ring.column('a', 1_004, 1_003), []);
});

test('after an hour a moment makes room for another, also where nothing was noted in between', () => {
  const ring = ringOf([
    [10, 1],
    [11, 2],
    [10 + stepsKept, 3],
  ]);
  assert.deepEqual([ring.at('a', 10), ring.at('a', 11), ring.at('a', 10 + stepsKept)], [nan, 2, 3]);
  ring.note(11 + 5 * stepsKept, { a: 4, b: 4 });
  const all = ring.column('a', 11 + 4 * stepsKept, 11 + 5 * stepsKept);
  assert.deepEqual(all, [...Array.from({ length: stepsKept }, () => nan), 4]);
});

test('a clock that goes back takes back what was noted for later moments, and nothing of it comes again', () => {
  const ring = ringOf([
    [1_020, 1],
    [1_021, 2],
    [1_022, 3],
    [1_021, 9],
  ]);
  assert.deepEqual(ring.column('a', 1_020, 1_022), [1, 9, nan]);
  ring.note(1_023, { a: 4, b: 4 });
  assert.deepEqual(ring.column('a', 1_020, 1_023), [1, 9, nan, 4]);
  ring.note(1_023 - 2 * stepsKept, { a: 5, b: 5 });
  assert.deepEqual(ring.column('a', 1_020, 1_023), [nan, nan, nan, nan]);
  assert.equal(ring.at('a', 1_023 - 2 * stepsKept), 5);
});

test('it holds what a table of all moments would, whatever the order they come in', () => {
  const notes = fc.array(fc.tuple(fc.integer({ min: 0, max: 4 * stepsKept }), fc.integer({ min: 0, max: 99 })), {
    maxLength: 60,
  });
  fc.assert(
    fc.property(notes, (all) => {
      const table = new Map<number, number>();
      for (const [step, value] of all) {
        for (const at of table.keys()) if (at > step || at <= step - stepsKept) table.delete(at);
        table.set(step, value);
      }
      const ring = ringOf(all);
      for (let at = 0; at <= 4 * stepsKept; at += 1) {
        assert.equal(ring.at('a', at), table.get(at) ?? nan, `at ${at}`);
      }
    }),
    { numRuns: 50 },
  );
});
