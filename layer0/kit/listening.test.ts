import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { type Server, connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { hasCode } from './errors.ts';
import { listenOn } from './listening.ts';
import { silentLogger } from './log.ts';

const log = silentLogger();
const here = { host: '127.0.0.1', port: 0 };

function server(t: TestContext): Server {
  const made = createServer((socket) => socket.end('hello'));
  t.after(() => made.close());
  return made;
}

test('a server that cannot accept for a moment says so once, and goes on', async (t) => {
  const told: string[] = [];
  const one = server(t);
  const port = await listenOn(one, {
    name: 'door',
    at: here,
    log: { error: (_: unknown, text?: string) => void told.push(text ?? '') },
  });
  // As Node tells of a connection for which there is no file descriptor.
  for (let times = 0; times < 3; times += 1)
    one.emit('error', Object.assign(new Error('accept EMFILE'), { code: 'EMFILE' }));
  assert.deepEqual(told, ['the door could not accept a connection on port 0 of 127.0.0.1: accept EMFILE']);
  const socket = connect(port, '127.0.0.1');
  const [first] = await once(socket, 'data');
  assert.equal(String(first), 'hello');
});

test('an address that the machine does not have is named', async (t) => {
  await assert.rejects(
    listenOn(server(t), { name: 'door', at: { host: '203.0.113.9', port: 0 }, log }),
    (error: Error) =>
      hasCode(error, 'unavailable') &&
      error.message === 'the door cannot listen on port 0 of 203.0.113.9: this machine has no such address',
  );
});

test('a port that is taken is a conflict that names it, and the listeners of others stay', async (t) => {
  const port = await listenOn(server(t), { name: 'first', at: here, log });
  const second = server(t);
  const seen: unknown[] = [];
  second.on('error', (error) => seen.push(error));
  await assert.rejects(
    listenOn(second, { name: 'second', at: { ...here, port }, log }),
    (error: Error) =>
      hasCode(error, 'conflict') &&
      error.message === `the second cannot listen on port ${port} of 127.0.0.1: something else does already`,
  );
  assert.equal(seen.length, 1);
  assert.equal(second.listenerCount('error'), 1);
});

test('several may share a port, and a Unix socket has none', async (t) => {
  const at = { ...here, reusePort: true };
  const port = await listenOn(server(t), { name: 'first', at, log });
  assert.equal(await listenOn(server(t), { name: 'second', at: { ...at, port }, log }), port);
  const folder = await mkdtemp(join(tmpdir(), 'flynn-listening-'));
  t.after(() => rm(folder, { recursive: true }));
  assert.equal(await listenOn(server(t), { name: 'third', at: { path: join(folder, 'socket') }, log }), 0);
});

test('a thousand clients that come while nothing can be accepted are all let in', async (t) => {
  const port = await listenOn(server(t), { name: 'door', at: here, log });
  const program = `
    const { connect } = require('node:net');
    let left = 1000;
    for (let i = 0; i < 1000; i += 1) connect(${port}, '127.0.0.1', () => (left -= 1) === 0 && process.exit(0));`;
  // This process does nothing meanwhile.
  const { status, signal, stderr } = spawnSync(process.execPath, ['-e', program], { timeout: 120_000 });
  assert.deepEqual({ status, signal, said: String(stderr) }, { status: 0, signal: null, said: '' });
});
