import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from './errors.ts';
import { checkPassword, hashPassword, isPasswordOf } from './password-hash.ts';
import { passwordHashPattern } from './password-hash-shape.ts';

const quick = { costLog2: 14 };

test('a hash knows its password, however its letters are put together, and no other', async () => {
  const hash = await hashPassword('caf\u00e9 au lait', quick);
  assert.match(hash, passwordHashPattern);
  assert.equal(await isPasswordOf('caf\u00e9 au lait', hash), true);
  assert.equal(await isPasswordOf('cafe\u0301 au lait', hash), true);
  assert.equal(await isPasswordOf('cafe au lait', hash), false);
  assert.equal(await isPasswordOf('', hash), false);
});

test('the same password has another hash each time, and what is no hash, or costs too much, knows none', async () => {
  const [one, other] = await Promise.all([hashPassword('swordfish', quick), hashPassword('swordfish', quick)]);
  assert.notEqual(one, other);
  assert.doesNotMatch(one.replace('ln=14', 'ln=16'), passwordHashPattern);
  for (const hash of ['', 'swordfish', one.replace('ln=14', 'ln=16'), one.replace('r=8', 'r=80'), one.slice(0, -1)]) {
    assert.equal(await isPasswordOf('swordfish', hash), false, hash);
  }
});

test('what is too short to keep anybody out, or no line of text, is no password', () => {
  assert.equal(checkPassword('12345678'), '12345678');
  for (const wrong of ['1234567', 'a'.repeat(129), 'line\nline line']) {
    assert.throws(
      () => checkPassword(wrong),
      (error) => hasCode(error, 'invalid'),
      wrong,
    );
  }
});
