import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FlynnError } from '@flynn/kit/errors';
import * as fc from 'fast-check';
import { parseEnvFile } from './arguments.ts';

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
      try {
        for (const [name, value] of Object.entries(parseEnvFile(text))) {
          assert.match(name, /^[A-Za-z_][A-Za-z0-9_]*$/);
          assert.equal(typeof value, 'string');
        }
      } catch (error) {
        assert.ok(
          error instanceof FlynnError && error.code === 'invalid',
          `${String(error)} for ${JSON.stringify(text)}`,
        );
      }
    }),
    { seed, numRuns: 2_000 },
  );
});

test('any value in single quotes comes back as it is', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 100 }), (value) => {
      const given = value.replaceAll("'", '');
      assert.deepEqual(parseEnvFile(`A='${given}'\n`), { A: given });
    }),
    { seed, numRuns: 1_000 },
  );
});
