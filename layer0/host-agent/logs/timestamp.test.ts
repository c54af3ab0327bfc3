import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { formatSeconds, formatTimestamp, parseTimestamp } from './timestamp.ts';

test('a time is read to the nanosecond, however many digits the engine wrote', () => {
  assert.equal(parseTimestamp('1970-01-01T00:00:01.5Z'), 1_500_000_000n);
  assert.equal(parseTimestamp('1970-01-01T00:00:01.000000001Z'), 1_000_000_001n);
  assert.equal(parseTimestamp('1970-01-01T02:00:01+02:00'), 1_000_000_000n);
  assert.throws(() => parseTimestamp('yesterday'), /not a time/);
  assert.equal(formatSeconds(1_000_000_001n), '1.000000001');
});

test('written and read again a time is the same, and texts sort like times', () => {
  const times = fc.bigInt({ min: 0n, max: 4_000_000_000_000_000_000n });
  fc.assert(
    fc.property(times, times, (a, b) => {
      assert.equal(parseTimestamp(formatTimestamp(a)), a);
      assert.equal(a < b, formatTimestamp(a) < formatTimestamp(b));
    }),
  );
});
