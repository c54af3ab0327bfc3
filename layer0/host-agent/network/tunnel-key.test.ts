import assert from 'node:assert/strict';
import { mkdtempDisposable, readFile, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { ensureTunnelKey, tunnelKeyFile } from './tunnel-key.ts';

test('the key is made once, in a file that root alone reads; another host makes another', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-key-'));
  const stateDir = join(folder.path, 'state');
  const key = await ensureTunnelKey(stateDir);
  assert.match(key, /^[A-Za-z0-9+/]{43}=$/);
  assert.equal(await ensureTunnelKey(stateDir), key);
  assert.equal((await stat(tunnelKeyFile(stateDir))).mode & 0o777, 0o600);
  assert.match(await readFile(tunnelKeyFile(stateDir), 'utf8'), /^[A-Za-z0-9+/]{43}=\n$/);
  assert.notEqual(await ensureTunnelKey(folder.path), key);
});

test('the public half is the one that `wg pubkey` answers', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-key-'));
  await writeFile(tunnelKeyFile(folder.path), `${Buffer.alloc(32, 1).toString('base64')}\n`);
  assert.equal(await ensureTunnelKey(folder.path), 'pOCSkrZRwni5dyxWn1+puxPZBrRqtoyd+dwrRAn4ogk=');
});

test('a file that holds something else is told with what to do', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-key-'));
  await writeFile(tunnelKeyFile(folder.path), 'no key');
  await assert.rejects(
    ensureTunnelKey(folder.path),
    (error) => hasCode(error, 'invalid') && /remove it/.test(`${error}`),
  );
});
