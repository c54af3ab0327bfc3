import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { Fingerprints, fingerprintOf } from './fingerprints.ts';

test('it has what was added, each once, and nothing else, however many share a place', () => {
  // Few low words: most of them lead to the same places.
  const one = fc.record({
    high: fc.integer({ min: 1, max: 2 ** 32 - 1 }),
    low: fc.constantFrom(0, 1, 64, 2 ** 32 - 1),
  });
  fc.assert(
    fc.property(fc.array(one, { maxLength: 400 }), fc.array(one, { maxLength: 20 }), (added, others) => {
      const set = new Fingerprints();
      for (const fingerprint of added) set.add(fingerprint);
      const keys = new Set(added.map(({ high, low }) => `${high} ${low}`));
      assert.equal(set.size, keys.size);
      assert.ok(added.every((fingerprint) => set.has(fingerprint)));
      for (const other of others) assert.equal(set.has(other), keys.has(`${other.high} ${other.low}`));
    }),
  );
});

test('a log’s end of lines is told apart', () => {
  const set = new Fingerprints();
  const line = (n: number) => fingerprintOf(Buffer.from(`line ${n}`));
  for (let n = 0; n < 20_000; n += 1) set.add(line(n));
  assert.equal(set.size, 20_000);
  assert.ok(set.has(line(19_999)) && !set.has(line(20_000)));
});
