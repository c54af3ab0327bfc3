import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { join } from 'node:path';
import { freePort } from '@flynn/kit/testing-ports';
import { saveClusters } from './clusters/clusters.ts';
import { Desk, openDeskWithController, quickClock } from './testing.ts';

const bin = join(import.meta.dirname, '../bin/flynn');

test('wrong usage ends with 2 and says what is right', async () => {
  await using desk = await Desk.open();
  const cases: [string[], RegExp][] = [
    [['nosuch'], /unknown command 'nosuch'/],
    [['watch', 'apps'], /unknown command 'watch'\n {2}"flynn get KIND \[NAME\] -w" .*flynn get apps -w\n/],
    [['scael'], /did you mean scale\?/],
    [
      ['env', 'sett', 'A=1'],
      /unknown command 'sett' of env: it has set, unset, get, import, export, references\n {2}did you mean set\?/,
    ],
    [['env', 'A=1'], /it has set, unset, get/],
    [['cluster', 'nosuch'], /it has list, add, default, remove, backup, restore, keys\n {2}"flynn help/],
    [['help', 'nosuch'], /unknown command 'nosuch'/],
    [['help', 'scael'], /did you mean scale\?/],
    [['help', 'route', 'sert'], /unknown command 'sert' of route: .*\n {2}did you mean cert\?/],
    [['route', 'add', 'htpp', 'x'], /did you mean http\?/],
    [['apps', 'extra'], /too many arguments/],
    [['apps', '--nosuch'], /unknown option '--nosuch'/],
    [['run'], /missing required argument 'command'/],
    [['run', '--nosuch', 'ls'], /unknown option '--nosuch'/],
    [['-a', 'x', 'scale', 'web=-1'], /a count cannot be below zero/],
    [['-a', 'x', 'scale', '-1'], /TYPE=COUNT/],
    [['-a', 'x', 'run', '-e', '1X=2', 'ls'], /"1X"/],
    [['-a', 'x', 'log', '-n', 'many'], /"many" is not a number of lines/],
    [['-a', 'x', 'route', 'add', 'tcp', '-p', '99999'], /"99999" is not a port/],
    [['-a', 'x', 'env', 'set'], /nothing to set/],
    [['cluster', 'add', 'x', 'example.com', 'key'], /"example.com" is no URL/],
    [['completion', 'tcsh'], /bash, zsh, fish/],
  ];
  await saveClusters(desk.configDirectory, {
    clusters: [{ name: 'x', controllerUrl: 'http://127.0.0.1:1', key: 'k', gitUrl: 'g', domain: 'd', httpPort: 80 }],
  });
  for (const [argv, message] of cases) {
    const { code, stdout, stderr } = await desk.run(argv);
    assert.equal(code, 2, `flynn ${argv.join(' ')}: ${stderr}`);
    assert.match(stderr, message);
    assert.match(stderr, /^flynn: /);
    assert.equal(stdout, '');
  }
});

test('help is told on stdout and is no failure; no command at all is', async () => {
  await using desk = await Desk.open();
  for (const argv of [
    ['--help'],
    ['help'],
    ['help', 'scale'],
    ['help', 'route', 'cert', 'add'],
    ['scale', '--help'],
    ['env', 'set', '-h'],
  ]) {
    const { code, stdout, stderr } = await desk.run(argv);
    assert.equal(code, 0);
    assert.match(stdout, /^Usage: flynn/);
    assert.equal(stderr, '');
  }
  const { code, stderr } = await desk.run([]);
  assert.equal(code, 2);
  assert.match(stderr, /^Usage: flynn/);
});

test('an argument that was not UTF-8 is refused by its place, and not shown', async () => {
  await using desk = await Desk.open();
  const script = '"$0" env set -a shop "PASSWORD=p$(printf "\\344")ss"';
  const { status, stderr } = spawnSync('sh', ['-c', script, bin], {
    encoding: 'utf8',
    env: { PATH: process.env['PATH'], FLYNN_CONFIG_DIR: desk.configDirectory },
  });
  assert.equal(status, 2, stderr);
  assert.match(stderr, /^flynn: argument 5 is not UTF-8, [^\n]*\n {2}write it in UTF-8; [^\n]*--file PATH\n$/);
});

test('without any cluster it says how to get one', async () => {
  await using desk = await Desk.open();
  const { code, stderr } = await desk.run(['apps']);
  assert.equal(code, 1);
  assert.match(stderr, /^flynn: no cluster is known here\n {2}flynn-host bootstrap \(npm run up\) makes one/);
});

test('a controller that cannot be reached is told with its address and what to look at', async () => {
  await using desk = await Desk.open();
  const controllerUrl = `http://controller.localhost:${await freePort()}`;
  await saveClusters(desk.configDirectory, {
    clusters: [{ name: 'x', controllerUrl, key: 'k', gitUrl: 'g', domain: 'd', httpPort: 80 }],
  });
  const { code, stderr } = await desk.run(['apps']);
  assert.equal(code, 1);
  assert.ok(stderr.startsWith(`flynn: cannot reach the controller at ${controllerUrl}`), stderr);
  assert.match(stderr, /\n {2}is the cluster up/);
});

test('what the cluster lacks inside is told without doubting its address', async () => {
  await using env = await openDeskWithController();
  await env.desk.run(['create', 'hello']);
  const { code, stderr } = await env.desk.run(['-a', 'hello', 'log'], { clock: quickClock() });
  assert.equal(code, 1);
  const waits = 'the cluster cannot answer just now (no log aggregator is running): asking again\n';
  assert.equal(stderr, `${waits}flynn: no log aggregator is running\n  "flynn status" tells how the cluster is\n`);
});

test('what the controller does not take is told by its name, not as a request', async () => {
  await using env = await openDeskWithController();
  const { code, stderr } = await env.desk.run(['user', 'add', 'x y']);
  assert.equal(code, 1);
  assert.match(stderr, /^flynn: name: expected lower-case letters[^\n]*\n$/);
});

test('a key the cluster does not know is told as that', async () => {
  await using env = await openDeskWithController();
  await saveClusters(env.desk.configDirectory, {
    clusters: [{ name: 'x', controllerUrl: env.controller.url, key: 'wrong', gitUrl: 'g', domain: 'd', httpPort: 80 }],
  });
  const { code, stderr } = await env.desk.run(['apps']);
  assert.equal(code, 1);
  assert.match(stderr, /does not know this key/);
});

test('options before and after the command are the same, and the one nearest to it counts', async () => {
  await using env = await openDeskWithController();
  for (const name of ['one', 'two']) await env.desk.run(['create', name]);
  const name = async (argv: string[], variables: Record<string, string> = {}) =>
    (JSON.parse((await env.desk.run([...argv, '--json'], { env: variables })).stdout) as { name: string }).name;
  assert.equal(await name(['-a', 'one', 'info']), 'one');
  assert.equal(await name(['info', '-a', 'one']), 'one');
  assert.equal(await name(['-a', 'one', 'info', '--app=two']), 'two');
  assert.equal(await name(['info'], { FLYNN_APP: 'two' }), 'two');
  assert.equal(await name(['info', '-a', 'one'], { FLYNN_APP: 'two' }), 'one');
  const { code, stderr } = await env.desk.run(['info', '-a', 'one', '-c', 'nosuch']);
  assert.equal(code, 1);
  assert.match(stderr, /no cluster is called "nosuch"[^]*known: test/);
});

test('`bin/flynn` runs, from any directory', () => {
  const { status, stdout, stderr } = spawnSync(bin, ['--help'], { cwd: '/', encoding: 'utf8', timeout: 60_000 });
  assert.equal(status, 0, stderr);
  assert.match(stdout, /^Usage: flynn/);
  assert.equal(stderr, '');
});

test('a reader that has seen enough ends `bin/flynn` without a complaint', () => {
  const script = `"${bin}" --help | head -n 1; echo "\${PIPESTATUS[0]}"`;
  const { stdout, stderr } = spawnSync('bash', ['--norc', '-c', script], { encoding: 'utf8', timeout: 60_000 });
  assert.match(stdout, /^Usage: flynn .*\n0\n$/);
  assert.equal(stderr, '');
});
