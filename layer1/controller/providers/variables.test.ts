import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { merged, taken } from './variables.ts';

const name = fc.constantFrom('A', 'B', 'C', 'D');
const values = fc.dictionary(name, fc.constantFrom('1', '2'));

test('what is put in and taken out again leaves everything else as it was', () => {
  fc.assert(
    fc.property(values, values, (env, given) => {
      const { after, taken: names } = merged({ env, references: {}, links: [] }, { env: given, links: [] });
      for (const [one, value] of Object.entries(given)) assert.equal(after.env[one], value);
      const back = taken(after, { env: given, links: [] }).after.env;
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
  const before = { env: { A: '1', B: '2' }, references: {}, links: [] };
  const given = (env: Record<string, string>) => ({ env, links: [] });
  assert.equal(merged(before, given({ A: '1' })).isChanged, false);
  assert.deepEqual(taken(before, given({ A: '1', B: 'other' })), {
    after: { env: { B: '2' }, references: {}, links: [] },
    isChanged: true,
  });
  assert.equal(taken(before, given({ C: '3' })).isChanged, false);
});

test('a reference that is replaced is none any more, and one that happens to hold the same value stays', () => {
  const before = { env: { A: 'x', B: 'x' }, references: { B: '${A}' }, links: [] };
  const after = { env: { A: 'x', B: 'y' }, references: {}, links: [] };
  assert.deepEqual(merged(before, { env: { B: 'y' }, links: [] }).after, after);
  assert.deepEqual(taken(before, { env: { B: 'x' }, links: [] }).after, before);
});

test('what it leads to is reached with it, and with what else leads there no longer', () => {
  const before = { env: {}, references: {}, links: ['cache'] };
  const given = { env: { URL: 'db' }, links: ['db-primary', 'db-replica'] };
  const { after } = merged(before, given);
  assert.deepEqual(after.links, ['cache', 'db-primary', 'db-replica']);
  assert.equal(merged(after, given).isChanged, false);
  // Its variables are there, what it reaches is not: of a release from before there was such a thing.
  assert.equal(merged({ ...after, links: ['cache'] }, given).isChanged, true);
  assert.deepEqual(taken(after, given).after, before);
  assert.equal(taken({ ...after, env: {} }, given).isChanged, true);
});
