import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import ssh2 from 'ssh2';
import { readHostKey } from './host-key.ts';

test('a private key is taken, also with its line ends written out', () => {
  const { private: key } = ssh2.utils.generateKeyPairSync('ed25519');
  assert.equal(readHostKey(key).trim(), key.trim());
  assert.equal(readHostKey(key.replaceAll('\n', String.raw`\n`)).trim(), key.trim());
});

test('anything else is refused with what to do', () => {
  const { public: key } = ssh2.utils.generateKeyPairSync('ed25519');
  for (const bad of [key, 'nonsense']) {
    assert.throws(
      () => readHostKey(bad),
      (error) => hasCode(error, 'invalid') && error.message.includes('ssh-keygen'),
    );
  }
});
