import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { isAmong, isCovered } from './domains.ts';

test('a wildcard stands for itself and exactly one label', () => {
  for (const [domain, is] of [
    ['*.example.com', true],
    ['a.example.com', true],
    ['a.b.example.com', false],
    ['example.com', false],
  ] as const) {
    assert.equal(isCovered('*.example.com', domain), is, domain);
  }
  assert.equal(isCovered('a.example.com', '*.example.com'), false);
});

test('one of several covers a name exactly if one of them does alone', () => {
  const label = fc.constantFrom('*', 'a', 'b', 'com');
  const name = fc.array(label, { minLength: 1, maxLength: 3 }).map((labels) => labels.join('.'));
  fc.assert(
    fc.property(fc.array(name, { maxLength: 4 }), name, (names, domain) => {
      const expected = names.some((one) => isCovered(one, domain));
      assert.equal(isAmong(new Set(names), domain), expected);
    }),
  );
});
