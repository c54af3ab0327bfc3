import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { differences, isEqual, merged } from './difference.ts';

test('what differs is told field by field, lists as a whole', () => {
  const before = { a: 1, b: { c: [1, 2], d: 'x' }, gone: {}, same: { deep: [{}] } };
  const after = { a: 1, b: { c: [1, 3] }, come: { e: { f: null } }, same: { deep: [{}] } };
  assert.deepEqual(differences(before, after), [
    { path: 'b.c', before: [1, 2], after: [1, 3] },
    { path: 'b.d', before: 'x' },
    { path: 'come.e.f', after: null },
    { path: 'gone', before: {} },
  ]);
  assert.deepEqual(differences({ a: { b: 1 } }, { a: 'text' }), [{ path: 'a', before: { b: 1 }, after: 'text' }]);
});

/** The examples of RFC 7396, appendix A. */
const patches: [unknown, unknown, unknown][] = [
  [{ a: 'b' }, { a: 'c' }, { a: 'c' }],
  [{ a: 'b' }, { b: 'c' }, { a: 'b', b: 'c' }],
  [{ a: 'b' }, { a: null }, {}],
  [{ a: 'b', b: 'c' }, { a: null }, { b: 'c' }],
  [{ a: ['b'] }, { a: 'c' }, { a: 'c' }],
  [{ a: 'c' }, { a: ['b'] }, { a: ['b'] }],
  [{ a: { b: 'c' } }, { a: { b: 'd', c: null } }, { a: { b: 'd' } }],
  [{ a: [{ b: 'c' }] }, { a: [1] }, { a: [1] }],
  [
    ['a', 'b'],
    ['c', 'd'],
    ['c', 'd'],
  ],
  [{ a: 'b' }, ['c'], ['c']],
  [{ a: 'foo' }, null, null],
  [{ a: 'foo' }, 'bar', 'bar'],
  [{ e: null }, { a: 1 }, { e: null, a: 1 }],
  [[1, 2], { a: 'b', c: null }, { a: 'b' }],
  [{}, { a: { bb: { ccc: null } } }, { a: { bb: {} } }],
];
for (const [target, patch, expected] of patches) {
  test(`${JSON.stringify(target)} patched with ${JSON.stringify(patch)}`, () => {
    assert.deepEqual(merged(target, patch), expected);
  });
}

test('nothing differs exactly when two values are equal, whatever their fields are called', () => {
  const json = fc.jsonValue({ maxDepth: 3 });
  fc.assert(
    fc.property(json, json, (a, b) => {
      assert.equal(isEqual(a, structuredClone(a)), true);
      assert.deepEqual(differences(a, structuredClone(a)), []);
      assert.equal(isEqual(a, b), isEqual(b, a));
      if (!isEqual(a, b)) assert.notEqual(differences({ root: a }, { root: b }).length, 0);
    }),
    { seed: 7, numRuns: 500 },
  );
});

test('a patch cannot reach what all objects share', () => {
  const patch: unknown = JSON.parse('{"__proto__": {"isAdmin": true}, "constructor": {"x": 1}}');
  const result: object = Object(merged({}, patch));
  assert.equal(Reflect.get({}, 'isAdmin'), undefined);
  assert.equal(Object.getPrototypeOf(result), Object.prototype);
  assert.deepEqual(Reflect.get(result, 'constructor'), { x: 1 });
});
