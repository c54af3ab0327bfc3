import assert from 'node:assert/strict';
import { test } from 'node:test';
import { notedTerms, seatFindings } from './seat.ts';
import type { Term } from './seat.ts';

const told = (looks: readonly Term[]) =>
  seatFindings(looks.reduce<Term[]>(notedTerms, [])).map(({ severity, what }) => `${severity}: ${what}`);

test('a worker that leads, or is replaced by another, is no matter', () => {
  for (const looks of [[], [undefined], [7], [7, 7, 7], [7, 7, undefined], [7, undefined, 9], [7, 8, 9, 9]]) {
    assert.deepEqual(told(looks), [], looks.join());
  }
});

test('that nobody leads is told at the second look, that nobody does so for long at the fourth', () => {
  assert.deepEqual(told([7, 7, undefined, undefined]), ['critical: nobody leads it']);
  assert.deepEqual(told([7, undefined, 8, 9]), ['critical: whoever leads it does not do so for long']);
  assert.deepEqual(told([6, 7, 8, 9, 9]), []);
});
