import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { readEnvFile } from './env-file.ts';

const seed = 20_260_101;
const pieces = [
  'A',
  'B_1',
  '=',
  ' ',
  '\n',
  '\r\n',
  '\t',
  '#',
  '"',
  "'",
  '\\',
  '\\n',
  '$',
  'export ',
  '\0',
  'ü',
  '\uD800',
  '\uFEFF',
];

test('any .env file is read or clearly invalid', () => {
  const soup = fc.array(fc.constantFrom(...pieces), { maxLength: 60 }).map((each) => each.join(''));
  fc.assert(
    fc.property(fc.oneof(soup, fc.string({ unit: 'binary', maxLength: 200 })), (text) => {
      const found = readEnvFile(text);
      if (found.is === 'wrong') return assert.match(found.problem, /sets nothing: write NAME=VALUE/);
      for (const [name, value] of Object.entries(found.values)) {
        assert.match(name, /^[A-Za-z_][A-Za-z0-9_]*$/);
        assert.equal(typeof value, 'string');
      }
    }),
    { seed, numRuns: 2_000 },
  );
});

test('any value in single quotes comes back as it is', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 100 }), (value) => {
      const given = value.replaceAll("'", '');
      assert.deepEqual(readEnvFile(`A='${given}'\n`), { is: 'read', values: { A: given } });
    }),
    { seed, numRuns: 1_000 },
  );
});
