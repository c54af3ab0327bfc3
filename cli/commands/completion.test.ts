import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { fakeClock } from '@flynn/kit/clock';
import { waitFor } from '@flynn/kit/retry';
import { loadClusters, saveClusters } from '../clusters/clusters.ts';
import { runCli } from '../program.ts';
import { Desk, openDeskWithController } from '../testing.ts';

/** What bash would offer at the end of this line; `flynn` itself answers with the apps given. */
async function offered(line: string, apps: readonly string[] = []): Promise<string[]> {
  await using desk = await Desk.open();
  const { code, stdout: script } = await desk.run(['completion', 'bash']);
  assert.equal(code, 0);
  const fake = `flynn() { printf '%s\\n' ${apps.join(' ')}; }`;
  const call = `COMP_WORDS=(flynn "$@"); COMP_CWORD=$#; _flynn; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { stdout, stderr } = spawnSync(
    'bash',
    ['--norc', '-uc', `${script}\n${fake}\n${call}`, 'bash', ...split(line)],
    {
      encoding: 'utf8',
      env: { PATH: process.env['PATH'] },
    },
  );
  assert.equal(stderr, '');
  return stdout.split('\n').filter((word) => word !== '');
}

/** As bash does: `COMP_WORDBREAKS` has "=" and ":" in it. */
function split(line: string): string[] {
  return line.split(' ').flatMap((word) => (word === '' ? [''] : word.split(/([=:])/).filter((part) => part !== '')));
}

test('bash offers commands, their subcommands and their options', async () => {
  assert.deepEqual(await offered('sc'), ['scale']);
  assert.deepEqual(await offered('env s'), ['set']);
  assert.deepEqual(await offered('link add --t'), ['--type']);
  assert.deepEqual(await offered('route add t'), ['tcp']);
  assert.deepEqual(await offered('scale --no'), ['--no-wait']);
  assert.deepEqual(await offered('nosuch '), []);
  assert.deepEqual(await offered('nosuch --j'), []);
});

test('bash looks past options with their values', async () => {
  assert.deepEqual(await offered('-a hello -c home env un'), ['unset']);
  assert.deepEqual(await offered('--app=hello --json env un'), ['unset']);
  assert.deepEqual(await offered('log -n 10 --se'), ['--search']);
  assert.deepEqual(await offered('ps -t web --q'), ['--quiet']);
});

test('bash offers options after arguments, and no subcommands', async () => {
  assert.deepEqual(await offered('env set A=1 --fi'), ['--file']);
  assert.deepEqual(await offered('scale web=3 worker=1 --no'), ['--no-wait']);
  assert.deepEqual(await offered('route remove abc --js'), ['--json']);
  assert.deepEqual(await offered('cluster add home https://example.com:443 KEY --p'), ['--pin']);
  assert.deepEqual(await offered('env unset set '), []);
  assert.deepEqual(await offered('release delete v1 sh'), []);
});

test('bash offers the apps after -a', async () => {
  const apps = ['hello', 'other', 'help'];
  for (const line of ['ps -a he', 'ps --app he', 'ps --app=he']) {
    assert.deepEqual(await offered(line, apps), ['hello', 'help'], line);
  }
  assert.deepEqual(await offered('ps --app=', apps), apps);
});

test('bash offers files where a file is meant, and nothing of flynn in their place', async () => {
  for (const line of [
    'apply -f ',
    'apply --file ',
    'apply --file=',
    'import ',
    'key add ',
    'run cat ',
    'pg restore -y ',
  ]) {
    assert.deepEqual(await offered(line), [], line);
  }
  assert.deepEqual(await offered('env set -f .env --refe'), ['--references']);
  assert.deepEqual(await offered('run rails --he'), [], 'these are of another program');
});

test('bash offers the words that an argument or a value may be', async () => {
  assert.deepEqual(await offered('user role bob '), ['viewer', 'developer', 'admin']);
  assert.deepEqual(await offered('token create --scope d'), ['developer']);
  assert.deepEqual(await offered('completion '), ['bash', 'zsh', 'fish']);
  for (const line of ['-c ho', 'cluster default ho', 'ps --cluster=ho']) {
    assert.deepEqual(await offered(line, ['home', 'work']), ['home'], line);
  }
  assert.deepEqual(await offered('promote shop st', ['shop', 'staging']), ['staging']);
  assert.deepEqual(await offered('scale --timeout '), [], 'nobody knows what');
});

test('bash knows other names of a command, and what there is help for', async () => {
  assert.deepEqual(await offered('deployment fail --r'), ['--reason']);
  assert.deepEqual(await offered('help sca'), ['scale']);
  assert.ok((await offered('scale ')).includes('--no-wait'), 'what it takes, where nothing else is known');
});

test('zsh and fish get scripts that know every command, and what each does', async () => {
  await using desk = await Desk.open();
  const zsh = (await desk.run(['completion', 'zsh'])).stdout;
  assert.match(zsh, /compdef _flynn_complete flynn\n$/);
  assert.match(zsh, /"route add"\) subs=\('http:answer for a host name, and a path of it' 'tcp:/);
  assert.match(zsh, /'get:a variable'\\''s value, every byte as it is'/);
  // In zsh these are tied to the environment: setting one would lose the way to awk.
  assert.doesNotMatch(zsh, /\bpath=/);
  const fish = (await desk.run(['completion', 'fish'])).stdout;
  assert.match(fish, /case 'route add'\n +printf '%s\\t%s\\n' http 'answer for a host name, and a path of it' tcp /);
  assert.match(fish, /get 'a variable\\'s value, every byte as it is'/);
  assert.match(fish, /case .*'apply\|-f' 'apply\|--file'.*\n +echo 'file'/);
});

test('names are asked for without a table around them, and not for long: who presses Tab waits for them', async () => {
  await using env = await openDeskWithController();
  await env.desk.run(['create', 'hello']);
  assert.equal((await env.desk.run(['completion', 'clusters'])).stdout, 'test\n');
  assert.match((await env.desk.run(['completion', 'apps'])).stdout, /^hello$/m);

  let asked = 0;
  const silent = createServer(() => (asked += 1));
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
  const address = silent.address();
  assert.ok(address !== null && typeof address === 'object');
  const known = await loadClusters(env.desk.configDirectory);
  const [first] = known.clusters;
  assert.ok(first !== undefined);
  const moved = { ...first, controllerUrl: `http://127.0.0.1:${address.port}` };
  await saveClusters(env.desk.configDirectory, { ...known, clusters: [moved] });
  const clock = fakeClock(Date.now());
  const io = env.desk.io({ clock });
  const ran = runCli(['completion', 'apps'], io);
  await waitFor(() => asked > 0, { what: 'the question', deadlineMs: 30_000 });
  await clock.advance(3_000);
  assert.equal(await ran, 1);
  assert.equal(io.stdout.text, '');
  silent.closeAllConnections();
  await new Promise((resolve) => silent.close(resolve));
});
