import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { openDeskWithController } from '../testing.ts';

test('`source set`, `source` and `source off`; a deploy key becomes the app’s own', async () => {
  await using env = await openDeskWithController();
  const { desk } = env;
  await desk.run(['create', 'hello']);
  const none = await desk.run(['source', '-a', 'hello']);
  assert.deepEqual([none.code, none.stdout], [1, '']);
  assert.match(none.stderr, /hello follows no repository: flynn source set URL -a hello/);
  const key = '-----BEGIN OPENSSH PRIVATE KEY-----\nx\n-----END OPENSSH PRIVATE KEY-----\n';
  await writeFile(join(desk.home, 'id'), key);
  const words = ['--branch', 'next', '--every', '5m', '--deploy-key', 'id'];
  const set = await desk.run(['source', 'set', '-a', 'hello', 'git@git.example.com:hello.git', ...words]);
  assert.equal(set.code, 0, set.stderr);
  assert.match(set.stdout, /hello follows next of git@git\.example\.com:hello\.git/);
  assert.equal((await desk.run(['env', 'get', '-a', 'hello', 'SSH_CLIENT_KEY'])).stdout, key);
  const shown = (await desk.run(['source', '-a', 'hello'])).stdout;
  assert.match(shown, /^repository +git@git\.example\.com:hello\.git\nbranch +next, every 5m\n/);
  assert.match(shown, /^looked +not yet/m);
  const wrong = await desk.run(['source', 'set', '-a', 'hello', 'https://me:hunter2@git.example.com/x']);
  assert.match(wrong.stderr, /holds a password or a token/);
  assert.doesNotMatch(wrong.stderr, /hunter2/);
  assert.equal((await desk.run(['source', 'off', '-a', 'hello'])).stdout, 'hello follows no repository any more\n');
  assert.equal((await desk.run(['source', '-a', 'hello'])).code, 1);
});
