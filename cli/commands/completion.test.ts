import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { Desk } from '../testing.ts';

/** What bash would offer after these words; `flynn` itself answers with the apps given. */
async function offered(words: readonly string[], apps: readonly string[] = []): Promise<string[]> {
  await using desk = await Desk.open();
  const { code, stdout: script } = await desk.run(['completion', 'bash']);
  assert.equal(code, 0);
  const fake = `flynn() { printf '%s\\n' NAME ${apps.join(' ')}; }`;
  const call = `COMP_WORDS=(flynn "$@"); COMP_CWORD=$#; _flynn; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { stdout, stderr } = spawnSync('bash', ['--norc', '-uc', `${script}\n${fake}\n${call}`, 'bash', ...words], {
    encoding: 'utf8',
    env: { PATH: process.env['PATH'] },
  });
  assert.equal(stderr, '');
  return stdout.split('\n').filter((word) => word !== '');
}

test('bash offers commands, their subcommands and their options', async () => {
  assert.deepEqual(await offered(['sc']), ['scale']);
  assert.deepEqual(await offered(['env', 's']), ['set']);
  assert.deepEqual(await offered(['link', 'add', '--t']), ['--type']);
  assert.deepEqual(await offered(['route', 'add', 't']), ['tcp']);
  assert.deepEqual(await offered(['scale', '--no']), ['--no-wait']);
  assert.deepEqual(await offered(['nosuch', '']), []);
});

test('bash looks past options with their values', async () => {
  assert.deepEqual(await offered(['-a', 'hello', '-c', 'home', 'env', 'un']), ['unset']);
  assert.deepEqual(await offered(['env', 'set', 'A=1', '--fi']), ['--file']);
});

test('bash offers the apps after -a', async () => {
  assert.deepEqual(await offered(['ps', '-a', 'he'], ['hello', 'other', 'help']), ['hello', 'help']);
});

test('zsh and fish get scripts that know every command', async () => {
  await using desk = await Desk.open();
  const zsh = (await desk.run(['completion', 'zsh'])).stdout;
  assert.match(zsh, /compdef _flynn_complete flynn\n$/);
  assert.match(zsh, /"route add"\) found="http tcp /);
  // In zsh these are tied to the environment: setting one would lose the way to awk.
  assert.doesNotMatch(zsh, /\bpath=/);
  const fish = (await desk.run(['completion', 'fish'])).stdout;
  assert.match(fish, /__fish_seen_subcommand_from env" -a "set unset get import export references"/);
  assert.match(fish, /print \\\$1/);
});
