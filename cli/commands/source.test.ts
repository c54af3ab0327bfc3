import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { openDeskWithController } from '../testing.ts';
import { hookRows } from './source-hook.ts';
import { isLooked } from './source.ts';

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
  const setAsJson = ['source', 'set', '-a', 'hello', 'git@git.example.com:hello.git', ...words, '--json'];
  const told = await desk.run(setAsJson);
  assert.equal((JSON.parse(told.stdout) as { branch: string }).branch, 'next', 'one value');
  assert.doesNotMatch(told.stdout + told.stderr, /PRIVATE KEY/);
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

test('`source hook` shows its secret once, with what to enter where; `--rotate` makes another, `off` ends it', async () => {
  await using env = await openDeskWithController();
  const { desk } = env;
  await desk.run(['create', 'hello']);
  const none = await desk.run(['source', 'hook', '-a', 'hello']);
  assert.match(none.stderr, /hello follows no repository: flynn source set URL -a hello/);
  await desk.run(['source', 'set', '-a', 'hello', 'https://198.51.100.7/hello.git']);
  const made = await desk.run(['source', 'hook', '-a', 'hello']);
  assert.equal(made.code, 0, made.stderr);
  const [, address, secret] = /^address +(\S+)\nsecret +(whsec_\S+) +\(shown once\)\n\nGitHub /.exec(made.stdout) ?? [];
  assert.match(address ?? '', /^http:\/\/controller\.\S+\/hooks\/\w+$/);
  for (const service of ['GitLab', 'Gitea (or Forgejo)', 'Bitbucket'])
    assert.ok(made.stdout.includes(service), service);
  assert.match(made.stderr, /the address is not encrypted.*GitLab would send the secret in clear/);
  const again = await desk.run(['source', 'hook', '-a', 'hello']);
  assert.ok(again.stdout.includes(address ?? '-') && !again.stdout.includes('whsec_'));
  assert.match(again.stdout, /shown when it was made: flynn source hook --rotate -a hello/);
  const rotated = await desk.run(['source', 'hook', '--rotate', '-a', 'hello']);
  assert.match(rotated.stdout, /whsec_/);
  assert.ok(!rotated.stdout.includes(secret ?? '-'));
  const shown = (await desk.run(['source', '-a', 'hello'])).stdout;
  assert.ok(shown.includes(`hook        ${address}\nlast hook   nothing came yet\n`), shown);
  await writeFile(join(desk.home, 'token'), 'whsec_dGhlLWdpdC1zZXJ2aWNlLXNpZ25zLXdpdGgtdGhpcw==\n');
  const given = await desk.run(['source', 'hook', '--secret', 'token', '-a', 'hello']);
  assert.equal(given.code, 0, given.stderr);
  assert.doesNotMatch(given.stdout, /whsec_/);
  await writeFile(join(desk.home, 'token'), 'hunter2\n');
  const wrong = await desk.run(['source', 'hook', '--secret', 'token', '-a', 'hello']);
  assert.match(wrong.stderr, /a secret is whsec_ and the base64 of 24 to 64 bytes/);
  assert.match((await desk.run(['source', 'hook', 'off', '-a', 'hello'])).stdout, /hello takes no hooks any more/);
  assert.doesNotMatch((await desk.run(['source', '-a', 'hello'])).stdout, /hook/);
});

test('what came in at a hook is told in lines of `source`', () => {
  const at = new Date(1_000_000).toISOString();
  const hook = {
    url: 'https://controller.example.com/hooks/x',
    last: { at, outcome: 'ignored' as const, what: 'a push to dev, and main is what is followed' },
    refused: { at, why: 'it was signed with another secret than this hook has', from: '192.0.2.1' },
  };
  assert.deepEqual(hookRows(hook, 1_090_000), [
    ['hook', 'https://controller.example.com/hooks/x'],
    ['last hook', 'ignored: a push to dev, and main is what is followed, 1m ago'],
    ['refused', '1m ago, from 192.0.2.1: it was signed with another secret than this hook has'],
  ]);
});

test('a look that was under way when another was asked for is not the one, unless it found something', () => {
  const source = { appId: 'a', url: 'https://git.example.com/hello.git', branch: 'main', everyMs: 60_000, failures: 0 };
  const asked = { ...source, commit: 'aaaa', polledAt: '1', pollId: 'poll-1', isWanted: true };
  const { pollId, ...ended } = { ...asked, polledAt: '2' };
  for (const [what, now, isDone] of [
    ['it goes on', asked, false],
    ['it has ended', ended, false],
    ['it has ended in vain', { ...ended, error: 'no branch main' }, false],
    ['it found something', { ...ended, commit: 'bbbb' }, true],
    ['the next goes on', { ...ended, pollId, isWanted: false }, false],
    ['the next has ended', { ...ended, polledAt: '3', isWanted: false }, true],
    // A controller of a version before does not tell what is wanted.
    ['nothing is said', { ...source, commit: 'aaaa', polledAt: '2' }, true],
  ] as const)
    assert.equal(isLooked(asked, now), isDone, what);
});
