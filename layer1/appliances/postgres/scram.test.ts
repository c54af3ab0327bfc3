import assert from 'node:assert/strict';
import { createHash, createHmac } from 'node:crypto';
import { test } from 'node:test';
import { scramVerifier } from './scram.ts';

test('a verifier is that of the example of RFC 7677: it knows its client, and its client knows it', () => {
  const salt = 'W22ZaJ0SNY7soEsUEjb6gQ==';
  const verifier = scramVerifier('pencil', Buffer.from(salt, 'base64'));
  const [, stored = '', server = ''] = /^SCRAM-SHA-256\$4096:W22ZaJ0SNY7soEsUEjb6gQ==\$(.+):(.+)$/.exec(verifier) ?? [];
  const nonce = 'rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0';
  const message = `n=user,r=rOprNGfwEbeRWgbNEkqO,r=${nonce},s=${salt},i=4096,c=biws,r=${nonce}`;
  const sign = (key: string) => createHmac('sha256', Buffer.from(key, 'base64')).update(message).digest();
  assert.equal(sign(server).toString('base64'), '6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=');
  const proof = Buffer.from('dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=', 'base64');
  const clientKey = sign(stored).map((byte, at) => byte ^ (proof[at] ?? 0));
  assert.equal(createHash('sha256').update(clientKey).digest('base64'), stored);
  assert.notEqual(scramVerifier('pencil'), scramVerifier('pencil'));
});
