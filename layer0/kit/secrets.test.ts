import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isSameSecret, newSecret } from './secrets.ts';

test('secrets are the same only if every character is, whatever their lengths', () => {
  assert.ok(isSameSecret('abc', 'abc'));
  assert.ok(!isSameSecret('abc', 'abd'));
  assert.ok(!isSameSecret('abc', 'abcd'));
  assert.ok(!isSameSecret('', 'a'));
});

test('a new secret is base64url of as many random bytes as asked for', () => {
  assert.match(newSecret(), /^[\w-]{43}$/);
  assert.equal(Buffer.from(newSecret(16), 'base64url').length, 16);
  assert.notEqual(newSecret(), newSecret());
});
