import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { LoginLimit } from './login-limit.ts';

const isExhausted = (error: unknown) => hasCode(error, 'exhausted');

test('ten wrong tokens at once, then one every ten seconds, for each address', () => {
  let nowMs = 1_000_000;
  const limit = new LoginLimit(() => nowMs);
  for (let index = 0; index < 10; index += 1) limit.countWrong('192.0.2.1');
  assert.throws(
    () => limit.countWrong('192.0.2.1'),
    (error) => {
      assert.ok(hasCode(error, 'exhausted'));
      assert.equal(
        error instanceof Error && 'detail' in error && JSON.stringify(error.detail),
        '{"retryAfterMs":10000}',
      );
      return true;
    },
  );
  limit.countWrong('192.0.2.2');
  nowMs += 10_000;
  limit.countWrong('192.0.2.1');
  assert.throws(() => limit.countWrong('192.0.2.1'), isExhausted);
  nowMs += 3_600_000;
  for (let index = 0; index < 10; index += 1) limit.countWrong('192.0.2.1');
  assert.throws(() => limit.countWrong('192.0.2.1'), isExhausted);
});

test('all addresses of a network are one', () => {
  const limit = new LoginLimit(() => 1_000_000);
  for (let index = 0; index < 10; index += 1) limit.countWrong(`2001:db8::${index}`);
  assert.throws(() => limit.countWrong('2001:db8::ffff'), isExhausted);
  limit.countWrong('2001:db8:0:1::1');
});

test('only so many addresses are remembered', () => {
  const limit = new LoginLimit(() => 1_000_000);
  for (let index = 0; index < 10; index += 1) limit.countWrong('192.0.2.1');
  for (let index = 0; index < 10_000; index += 1) limit.countWrong(`10.0.${index >> 8}.${index & 255}`);
  limit.countWrong('192.0.2.1');
});
