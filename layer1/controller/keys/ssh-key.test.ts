import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseSshKey } from './ssh-key.ts';

const ed25519 = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ2aZ0vQur8qIFeR7aCAUFg/SYF7aHg/RO4eWCiCJI6G';
const weakRsa =
  'ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQC4zM2IfH6JNekr56g6rYazKdz/ndc9Tyes9c5a6aNnB3qeQhwBRwvOzspCqkok4zi7Hl41tIttMcImdT1kvgmYk/FYxxfSvU2CK+Ws0+/V+MO3MdV0oWUFYccsROnFl6rynczxpNhW/R1lOlVbrtM9UDety7P/3N4YfuhN/UnK7w== root@vm';

test('a key gets the fingerprint ssh-keygen prints, and its comment', () => {
  const key = parseSshKey(`  ${ed25519} me at home \n`);
  assert.equal(key.fingerprint, 'SHA256:7JiEX4oWV1ZK3aSGnVRaja3KY7+QGoSwDUo+sPtssmU');
  assert.equal(key.publicKey, ed25519);
  assert.equal(key.comment, 'me at home');
});

for (const [name, text, message] of [
  ['nothing', '  ', /empty/],
  ['a private key', '-----BEGIN OPENSSH PRIVATE KEY-----\nabc', /private key.*\.pub/],
  ['two keys', `${ed25519}\n${ed25519}`, /one key at a time/],
  ['nonsense', 'hello world', /starts with its type/],
  ['a DSA key', 'ssh-dss AAAAB3NzaC1kc3M=', /DSA/],
  ['a key without its key', 'ssh-ed25519', /not base64/],
  ['a key cut short', ed25519.slice(0, -8), /cut short/],
  ['a key of another type', ed25519.replace('ssh-ed25519', 'ssh-rsa'), /another type/],
  ['a short RSA key', weakRsa, /1024 bits is too weak/],
] as const) {
  test(`${name} is refused in words`, () => {
    assert.throws(() => parseSshKey(text), message);
  });
}
