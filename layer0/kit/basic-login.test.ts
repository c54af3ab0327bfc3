import assert from 'node:assert/strict';
import { test } from 'node:test';
import { basicAuthorization } from './basic-login.ts';

function pairOf(address: string): string | undefined {
  const [, encoded] = /^Basic (.*)$/.exec(basicAuthorization(new URL(address)) ?? '') ?? [];
  return encoded === undefined ? undefined : Buffer.from(encoded, 'base64').toString();
}

test('a login within an address is the header that it stands for, whatever signs the password has', () => {
  assert.equal(pairOf('https://ann:s3cret@example.com/x'), 'ann:s3cret');
  assert.equal(pairOf('https://ann:p%40ss%C3%A4@example.com'), 'ann:p@ssä');
  assert.equal(pairOf('https://ann:pa%ss@example.com'), 'ann:pa%ss');
  assert.equal(pairOf('https://:key@example.com'), ':key');
  assert.equal(pairOf('https://example.com'), undefined);
});
