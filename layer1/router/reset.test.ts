import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { TLSSocket } from 'node:tls';
import { closed } from '@flynn/kit/testing-sockets';
import { reset, runsOver } from './reset.ts';

/** Both ends of a connection. */
async function pair(t: TestContext): Promise<{ ours: Socket; theirs: Socket }> {
  const server = createServer({ allowHalfOpen: true });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const accepted = once(server, 'connection');
  const theirs = connect({ port: (server.address() as AddressInfo).port, host: '127.0.0.1', allowHalfOpen: true });
  const [ours] = (await accepted) as [Socket];
  t.after(() => {
    theirs.destroy();
    ours.destroy();
    server.close();
  });
  return { ours, theirs };
}

/** How the other end hears of it. */
async function heard(socket: Socket): Promise<string | undefined> {
  let code: string | undefined;
  socket.on('error', (error: NodeJS.ErrnoException) => (code = error.code));
  socket.once('end', () => socket.end());
  socket.resume();
  await closed(socket);
  return code;
}

test('whoever is at the other end is reset, over TLS too', async (t) => {
  const plain = await pair(t);
  reset(plain.ours);
  assert.equal(await heard(plain.theirs), 'ECONNRESET');
  const { ours, theirs } = await pair(t);
  const secure = new TLSSocket(ours, { isServer: true });
  secure.on('error', () => undefined);
  runsOver(secure, ours);
  const ended = closed(secure);
  reset(secure);
  assert.equal(await heard(theirs), 'ECONNRESET');
  await ended;
});

test('TLS of which it is not known what it runs over is destroyed, and nothing is thrown', async (t) => {
  const { ours, theirs } = await pair(t);
  const secure = new TLSSocket(ours, { isServer: true });
  secure.on('error', () => undefined);
  reset(secure);
  await heard(theirs);
  assert.ok(secure.destroyed);
});

test('one whose end is just on its way is closed all the same', async (t) => {
  const { ours, theirs } = await pair(t);
  const failures: unknown[] = [];
  ours.on('error', (error) => failures.push(error));
  const ended = closed(ours);
  ours.end();
  reset(ours);
  await heard(theirs);
  await ended;
  assert.deepEqual(failures, []);
});
