import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { merged, taken } from './variables.ts';

const name = fc.constantFrom('A', 'B', 'C', 'D');
const values = fc.dictionary(name, fc.constantFrom('1', '2'));

test('what is put in and taken out again leaves everything else as it was', () => {
  fc.assert(
    fc.property(values, values, (env, given) => {
      const { after, taken: names } = merged({ env, references: {} }, given);
      for (const [one, value] of Object.entries(given)) assert.equal(after.env[one], value);
      const back = taken(after, given).after.env;
      for (const [one, value] of Object.entries(env)) if (!(one in given)) assert.equal(back[one], value);
      assert.deepEqual(
        Object.keys(back).filter((one) => one in given),
        [],
      );
      assert.deepEqual(
        names,
        Object.keys(given)
          .filter((one) => env[one] !== undefined && env[one] !== given[one])
          .toSorted(),
      );
    }),
  );
});

test('what the app has already with the same value is no change, and what it changed since is its own', () => {
  const env = { A: '1', B: '2' };
  assert.equal(merged({ env, references: {} }, { A: '1' }).isChanged, false);
  assert.deepEqual(taken({ env, references: {} }, { A: '1', B: 'other' }), {
    after: { env: { B: '2' }, references: {} },
    isChanged: true,
  });
  assert.equal(taken({ env, references: {} }, { C: '3' }).isChanged, false);
});

test('a reference that is replaced is none any more, and one that happens to hold the same value stays', () => {
  const before = { env: { A: 'x', B: 'x' }, references: { B: '${A}' } };
  assert.deepEqual(merged(before, { B: 'y' }).after, { env: { A: 'x', B: 'y' }, references: {} });
  assert.deepEqual(taken(before, { B: 'x' }).after, before);
});
