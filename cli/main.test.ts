import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { openSync, closeSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { jobs } from '@flynn/controller/api';
import { encodeFrame } from '@flynn/kit/frames';
import { Desk, openDeskWithController } from './testing.ts';

/** As a process of its own, with that as its standard output. */
function start({ home, configDirectory }: Desk, argv: readonly string[], stdout: 'pipe' | number) {
  const program = join(import.meta.dirname, 'main.ts');
  return spawn(process.execPath, ['--disable-warning=ExperimentalWarning', program, ...argv], {
    stdio: ['ignore', stdout, 'pipe'],
    env: { PATH: process.env['PATH'], HOME: home, FLYNN_CONFIG_DIR: configDirectory },
  });
}

test('what changes something goes on to its end when nobody reads on: all is done that was asked for', async () => {
  await using env = await openDeskWithController();
  const { client } = env.controller;
  await env.controller.deployApp('shop', { web: {} });
  const params = { app: 'shop' };
  const run = () => client.call(jobs.run, { params, body: { command: ['sleep'] } });
  const ids = [await run(), await run(), await run()].map(({ id }) => id);
  await env.controller.jobsOf('shop', 4);
  const child = start(env.desk, ['kill', '-a', 'shop', ...ids], 'pipe');
  const exit = once(child, 'exit');
  child.stdout?.destroy();
  const [code] = await exit;
  assert.equal(code, 0);
  await env.controller.jobsOf('shop', 1);
});

test('what only tells ends, and well, with whoever reads it', async () => {
  await using env = await openDeskWithController();
  await env.controller.deployApp('shop', { web: {} });
  const child = start(env.desk, ['get', 'apps', '-w'], 'pipe');
  const exit = once(child, 'exit');
  assert.ok(child.stdout !== null);
  await once(child.stdout, 'data');
  child.stdout.destroy();
  // What it has to say next nobody hears.
  await env.controller.deployApp('other', { web: {} });
  const [code] = await exit;
  assert.equal(code, 0);
});

test('a job that goes on talking is left by the command whose reader has left', async () => {
  await using env = await openDeskWithController();
  await env.controller.deployApp('shop', { web: {} });
  const [job] = await env.controller.jobsOf('shop', 1);
  const host = env.controller.hosts.find(({ id }) => id === job?.hostId);
  assert.ok(host !== undefined);
  host.streams = async (_command, socket) => {
    const frame = encodeFrame({ kind: 'stdout', data: Buffer.from('y\n') });
    const talking = setInterval(() => socket.write(frame), 5);
    socket.on('error', () => undefined).resume();
    await once(socket, 'close');
    clearInterval(talking);
  };
  const child = start(env.desk, ['exec', '-a', 'shop', 'yes'], 'pipe');
  const exit = once(child, 'exit');
  assert.ok(child.stdout !== null);
  await once(child.stdout, 'data');
  child.stdout.destroy();
  const [code] = await exit;
  assert.equal(code, 1);
});

test('a disk that is full is told', async () => {
  await using desk = await Desk.open();
  const full = openSync('/dev/full', 'w');
  const child = start(desk, ['version', '--json'], full);
  const exit = once(child, 'exit');
  closeSync(full);
  assert.ok(child.stderr !== null);
  const said = await text(child.stderr);
  assert.match(said, /flynn: cannot write: .*ENOSPC/);
  assert.doesNotMatch(said, /\n {4}at /);
  const [code] = await exit;
  assert.equal(code, 1);
});
