import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { silentLogger } from '@flynn/kit/log';
import { HookServer } from './hook-server.ts';
import type { HookHandler } from './hook-server.ts';
import { runHook } from './hook.ts';

async function setUp(t: TestContext): Promise<HookServer> {
  const dir = await mkdtemp(join(tmpdir(), 'hook-'));
  const server = await HookServer.open(dir, { command: ['true'], log: silentLogger() });
  t.after(() => server[Symbol.asyncDispose]());
  return server;
}

async function runWith(env: Record<string, string>, updates = 'updates\n') {
  const stdin = new PassThrough();
  stdin.end(updates);
  const stdout = new PassThrough();
  const code = await runHook({ env, stdin, stdout });
  stdout.end();
  return { code, said: await text(stdout) };
}

test('a hook tells what git told it, prints what it is answered, and ends as it is told', async (t) => {
  const server = await setUp(t);
  for (const isAccepted of [true, false]) {
    const handler: HookHandler = async ({ updates, quarantine, say }) => {
      say(`${updates.trim()} in ${quarantine['GIT_QUARANTINE_PATH']}`);
      say('ä'.repeat(100_000));
      return isAccepted;
    };
    using expected = server.expect(handler);
    const { code, said } = await runWith({ ...expected.env, GIT_QUARANTINE_PATH: '/q', SECRET: 'x' });
    assert.equal(code, isAccepted ? 0 : 1);
    assert.equal(said, `updates in /q\n${'ä'.repeat(100_000)}\n`);
  }
});

test('a hook that no push expects is refused, and so is one that comes twice', async (t) => {
  const server = await setUp(t);
  using expected = server.expect(async () => true);
  assert.equal((await runWith({ ...expected.env, HOOK_TOKEN: 'guess' })).code, 1);
  assert.equal((await runWith(expected.env)).code, 0);
  assert.equal((await runWith(expected.env)).code, 1);
});

test('a hook that is killed aborts what it waits for', async (t) => {
  const server = await setUp(t);
  const aborted = Promise.withResolvers<void>();
  using expected = server.expect(async ({ signal }) => {
    signal.addEventListener('abort', () => aborted.resolve());
    await aborted.promise;
    return false;
  });
  const socket = connect(expected.env['HOOK_SOCKET'] ?? '');
  await once(socket, 'connect');
  socket.write(`${JSON.stringify({ token: expected.env['HOOK_TOKEN'], updates: '', quarantine: {} })}\n`);
  setImmediate(() => socket.destroy());
  await aborted.promise;
});

test('a receiver that goes away fails the hook with a reason', async (t) => {
  const server = await setUp(t);
  const begun = Promise.withResolvers<void>();
  using expected = server.expect(async () => {
    begun.resolve();
    return new Promise(() => {});
  });
  const ended = runWith(expected.env);
  await begun.promise;
  await server[Symbol.asyncDispose]();
  const { code, said } = await ended;
  assert.equal(code, 1);
  assert.match(said, /push again/);
});
