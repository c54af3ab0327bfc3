/** Fetches that take nothing, and many at once, with real git and real ssh. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { maxFetches } from './fetches.ts';
import { setUp, startFetch } from './testing.ts';

/** More than may be on the way to a client. */
const large = () => randomBytes(20 * 1024 * 1024);

/** Of what runs with that word. */
async function commandsOf(word: string): Promise<string[]> {
  const ids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const all = await Promise.all(ids.map((id) => readFile(`/proc/${id}/cmdline`, 'utf8').catch(() => '')));
  return all.filter((command) => command.includes(word));
}

test(
  'only so many fetches are under way at once; the next says that it waits, and goes on when one has ended or gone',
  { timeout: 180_000 },
  async (t) => {
    const world = await setUp(t, undefined, 'ed25519', { tellMs: 50 });
    const head = await world.commit({ large: large() });
    assert.equal((await world.git(['push', world.remote(), 'main'])).code, 0);
    const held = [];
    for (let index = 0; index < maxFetches; index += 1) held.push(await startFetch(world, head));
    const next = spawn('git', ['clone', '--bare', world.remote(), join(world.dir, 'copy')], {
      env: { PATH: process.env['PATH'], ...world.gitEnv() },
    });
    const ended = once(next, 'exit');
    let said = '';
    next.stderr.on('data', (data: Buffer) => (said += data.toString()));
    const still = `Still waiting for one of ${maxFetches} other fetches to end.`;
    await waitFor(() => said.includes(still), { what: 'the notice', deadlineMs: 60_000 });
    assert.match(said, /8 other fetches are under way: waiting for one of them to end\./);
    // Of whatever it was sent much is still on the way.
    held[0]?.kill('SIGKILL');
    assert.deepEqual(await ended, [0, null], said);
    for (const client of held) client.kill('SIGKILL');
    await world.stop(45_000);
  },
);

test('a fetch that waits for too long is told to come again', { timeout: 180_000 }, async (t) => {
  const world = await setUp(t, undefined, 'ed25519', { limitMs: 100 });
  const head = await world.commit({ large: large() });
  assert.equal((await world.git(['push', world.remote(), 'main'])).code, 0);
  const held = [];
  for (let index = 0; index < maxFetches; index += 1) held.push(await startFetch(world, head));
  const { code, output } = await world.git(['fetch', world.remote(), 'main']);
  assert.notEqual(code, 0);
  assert.match(output, /8 other fetches are under way, and none has ended .*try again later/);
  for (const client of held) client.kill('SIGKILL');
  await world.stop(45_000);
});

test('the git of a client that is there and takes nothing is ended', { timeout: 180_000 }, async (t) => {
  const world = await setUp(t, undefined, 'ed25519', { stallMs: 8_000 });
  const head = await world.commit({ large: large() });
  assert.equal((await world.git(['push', world.remote(), 'main'])).code, 0);
  const client = await startFetch(world, head);
  const ended = once(client, 'exit');
  const isPacking = async () => (await commandsOf(join(world.dir, 'repos/id-app.git'))).length > 0;
  assert.equal(await isPacking(), true);
  // Its connection stands, and nobody kills it.
  await waitFor(async () => !(await isPacking()), { what: 'its git to end', deadlineMs: 60_000, intervalMs: 50 });
  client.stdout.resume();
  const [code] = await ended;
  assert.notEqual(code, 0);
  // One that asks for nothing has room for words.
  const idle = spawn('ssh', [...world.sshArgs('known'), 'git@127.0.0.1', "git-upload-pack '/app.git'"]);
  idle.stdout.resume();
  assert.match(await text(idle.stderr), /nothing was taken, nor asked for, in 0 minutes: try again/);
});
