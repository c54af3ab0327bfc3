import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { gitSshEnv } from '@flynn/kit/git-ssh';
import { pinned } from './pinned-remote.ts';

const addresses = ['192.0.2.7', '2001:db8::7'];
const settingsOf = (url: string) => {
  const { env } = pinned(url, addresses);
  return Array.from({ length: Number(env['GIT_CONFIG_COUNT'] ?? 0) }, (_, index) => [
    env[`GIT_CONFIG_KEY_${index}`],
    env[`GIT_CONFIG_VALUE_${index}`],
  ]);
};

test('git follows nothing, and goes to the addresses that were found under the name', () => {
  const stays = ['http.followRedirects', 'false'];
  assert.deepEqual(settingsOf('https://git.example.com/shop.git'), [
    stays,
    ['http.curloptResolve', 'git.example.com:443:192.0.2.7,[2001:db8::7]'],
  ]);
  assert.deepEqual(
    settingsOf('http://Git.example.com:8080/shop.git')[1]?.[1],
    'git.example.com:8080:192.0.2.7,[2001:db8::7]',
  );
  assert.deepEqual(settingsOf('https://192.0.2.7/shop.git'), [stays]);
  assert.deepEqual(settingsOf('https://[2001:db8::7]/shop.git'), [stays]);
});

test('an address that git would read otherwise is given to it as it was looked up', () => {
  const read = String.raw`http://git.example.com\@127.0.0.1/shop.git`;
  assert.equal(pinned(read, addresses).url, 'http://git.example.com/@127.0.0.1/shop.git');
});

test('ssh goes to the address, and knows the key of the host by its name', async (t) => {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-pinned-test-'));
  t.after(() => rm(dir, { recursive: true, force: true }));
  const known: [string, string][] = [
    ['git@git.example.com:team/shop.git', 'git.example.com'],
    ['ssh://git@git.example.com/shop.git', 'git.example.com'],
    ['ssh://git@git.example.com:22/shop.git', 'git.example.com'],
    ['ssh://git@git.example.com:2222/shop.git', '[git.example.com]:2222'],
    ['ssh://git@[2001:db8::7]:2222/shop.git', '[2001:db8::7]:2222'],
  ];
  for (const [url, name] of known) {
    const { ssh } = pinned(url, addresses);
    assert.deepEqual(ssh, { address: '192.0.2.7', known: name });
    const { GIT_SSH_COMMAND: command = '' } = await gitSshEnv(dir, {}, ssh);
    assert.ok(command.includes(`-o 'HostName=192.0.2.7' -o 'HostKeyAlias=${name}'`), command);
  }
});
