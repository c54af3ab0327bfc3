import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { openDeskWithController } from '../testing.ts';

test('`runner env` tells what every build gets, and what those of some runners do', async () => {
  await using env = await openDeskWithController();
  const { desk } = env;
  assert.equal((await desk.run(['runner', 'env'])).stdout, '');
  const set = await desk.run(['runner', 'env', 'set', 'GOPROXY=https://go.example.com', 'NOTE=two words']);
  assert.deepEqual([set.code, set.stdout], [0, 'every runner: GOPROXY, NOTE; from the next build on\n'], set.stderr);
  await writeFile(join(desk.home, 'vars'), 'GOPROXY=https://gpu.example.com\n');
  const some = await desk.run(['runner', 'env', 'set', '--labels', 'zone=a,gpu=yes', '-f', 'vars', 'LEVEL=9']);
  assert.equal(some.stdout, 'runners with gpu=yes,zone=a: GOPROXY, LEVEL; from the next build on\n', some.stderr);
  await desk.run(['runner', 'env', 'set', '--labels', 'gpu=yes,zone=a', 'LEVEL=8']);
  const told = [
    '# every runner',
    'GOPROXY=https://go.example.com',
    "NOTE='two words'",
    '# runners with gpu=yes,zone=a',
    'GOPROXY=https://gpu.example.com',
    'LEVEL=8',
    '',
  ].join('\n');
  assert.equal((await desk.run(['runner', 'env'])).stdout, told);
  assert.equal((await desk.run(['runner', 'env', 'list'])).stdout, told);
  const parsed = JSON.parse((await desk.run(['runner', 'env', '--json'])).stdout) as { name: string }[];
  assert.deepEqual(
    parsed.map(({ name }) => name),
    ['all', 'gpu=yes,zone=a'],
  );
  for (const words of [['env'], ['env', 'list']]) {
    const one = await desk.run(['runner', ...words, '--labels', 'zone=a,gpu=yes,disk=ssd']);
    const merged = ['GOPROXY=https://gpu.example.com', 'LEVEL=8', "NOTE='two words'"];
    assert.equal(one.stdout, ['# runners with disk=ssd,gpu=yes,zone=a', ...merged, ''].join('\n'), one.stderr);
  }
  const unset = await desk.run(['runner', 'env', 'unset', 'GOPROXY', 'LEVEL', '--labels', 'gpu=yes,zone=a']);
  assert.equal(unset.stdout, 'runners with gpu=yes,zone=a: no variables\n');
  assert.doesNotMatch((await desk.run(['runner', 'env'])).stdout, /gpu/);
});

test('passwords of registries are told by nobody, as JSON neither', async () => {
  await using env = await openDeskWithController();
  const { desk } = env;
  await desk.run(['runner', 'env', 'set', 'GOPROXY=https://go.example.com']);
  const login = ['registry', 'login', 'registry.example.com', '-u', 'me'];
  assert.equal((await desk.run(login, { input: 'hunter2' })).code, 0);
  for (const words of [[], ['--json']]) {
    const { stdout } = await desk.run(['runner', 'env', ...words]);
    assert.match(stdout, /GOPROXY/);
    assert.doesNotMatch(stdout, /hunter2/);
  }
});

test('what cannot be is told before anything is changed, and two who set at once lose nothing', async () => {
  await using env = await openDeskWithController();
  const { desk } = env;
  for (const [words, code, pattern] of [
    [['set'], 2, /nothing to set: write NAME=VALUE/],
    [['set', 'no'], 2, /"no" sets nothing/],
    [['list', '--labels', 'gpu'], 2, /--labels gpu: write NAME=VALUE,NAME=VALUE/],
    [['set', 'A=1', '--labels', 'gpu'], 2, /--labels gpu: write NAME=VALUE,NAME=VALUE/],
    [['set', 'FLYNN_BUILD_TIMOUT=20m'], 1, /FLYNN_BUILD_TIMOUT: .*did you mean FLYNN_BUILD_TIMEOUT\?/],
    [['set', 'PATH=/x'], 1, /PATH: it would change the programs of a build/],
    [['unset', 'GONE'], 1, /not set: GONE\n {2}"flynn runner env" lists what is/],
  ] as const) {
    const ran = await desk.run(['runner', 'env', ...words]);
    assert.equal(ran.code, code, ran.stderr);
    assert.match(ran.stderr, pattern);
  }
  assert.equal((await desk.run(['runner', 'env'])).stdout, '');
  const names = ['A', 'B', 'C', 'D'];
  const ran = await Promise.all(names.map((name) => desk.run(['runner', 'env', 'set', `${name}=1`])));
  assert.deepEqual(
    ran.map(({ code }) => code),
    [0, 0, 0, 0],
    ran.map(({ stderr }) => stderr).join(''),
  );
  assert.equal((await desk.run(['runner', 'env'])).stdout, '# every runner\nA=1\nB=1\nC=1\nD=1\n');
});
