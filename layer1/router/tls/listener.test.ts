/** For how long is a handshake waited for? */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:https';
import { connect } from 'node:net';
import type { Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { connect as connectTls } from 'node:tls';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { closed } from '@flynn/kit/testing-sockets';
import { Deadlines, tickMs } from '../http1/deadlines.ts';
import { acceptPlain } from '../proxy-protocol/acceptance.ts';
import { settled, startBackend } from '../testing.ts';
import { createFallback } from './fallback.ts';
import { TlsListener } from './listener.ts';
import { profileOptions } from './profile.ts';
import { servedBy, setUpTls } from './testing.ts';

const soon = { deadlineMs: 60_000, intervalMs: 5 };

/** A port whose clock stands until the test moves it. */
async function open(t: TestContext) {
  t.mock.timers.enable({ apis: ['setInterval'] });
  let elapsedMs = 0;
  const taken: Socket[] = [];
  const front = { take: (socket: Socket) => void taken.push(socket) };
  const listener = new TlsListener({
    certificates: { contextFor: () => undefined },
    challenges: { hasCertificates: false, contextFor: () => undefined },
    accept: acceptPlain,
    profile: profileOptions('modern'),
    fallback: await createFallback(),
    fronts: { 'http/1.1': front },
    deadlines: new Deadlines(() => elapsedMs),
    log: silentLogger(),
  });
  const port = await listener.listen({ host: '127.0.0.1', port: 0 });
  t.after(async () => {
    await listener[Symbol.asyncDispose]();
    for (const socket of taken) socket.destroy();
  });
  /** One look at what is late, after that long. */
  const look = (ms: number) => {
    elapsedMs += ms;
    t.mock.timers.tick(tickMs);
  };
  return { listener, port, taken, look };
}

/** It is connected, and says nothing of its handshake. */
async function silent(port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => socket.destroy());
  await once(socket, 'connect');
  return socket;
}

test('a client has ten seconds for its handshake, however little it says', async (t) => {
  const { listener, port, look } = await open(t);
  const socket = await silent(port);
  t.after(() => socket.destroy());
  const ended = closed(socket);
  // The clock of a port that has no connection yet stands.
  await waitFor(
    () => {
      look(tickMs);
      return socket.destroyed;
    },
    { what: 'the connection to be cut', ...soon },
  );
  await ended;
  assert.equal(listener.counts.failures, 1);
});

test('a standstill of the router is not the client’s: its handshake goes on', async (t) => {
  const { listener, port, taken, look } = await open(t);
  const socket = await silent(port);
  for (let i = 0; i < 5; i += 1) look(3_600_000);
  const client = connectTls({ socket, rejectUnauthorized: false });
  t.after(() => client.destroy());
  for (let i = 0; i < 5; i += 1) look(3_600_000);
  await once(client, 'secureConnect');
  await waitFor(() => taken.length === 1, { what: 'the front to have it', ...soon });
  assert.deepEqual(listener.counts, { handshakes: 1, failures: 0, unknownNames: 0 });
});

test('a handshake that is under way when the router is told to stop is done, and its request answered', async (t) => {
  const world = await setUpTls(t, {
    first: async (authority) => [await servedBy(authority, { id: 'c1', domains: ['app.test'] })],
  });
  const backend = await startBackend(t, (_request, response) => void response.end('ok'));
  world.plane.up('web', backend.address);
  await settled(world.router, [backend.address]);
  const socket = await silent(world.port);
  const stopped = world.router.stop({ drainMs: 60_000 });
  const asked = request({
    createConnection: () => connectTls({ socket, servername: 'app.test', ca: world.authority.certificate }),
    headers: { host: 'app.test' },
  });
  asked.end();
  const [response] = await once(asked, 'response');
  assert.equal(response.headers.connection, 'close');
  assert.equal(await text(response), 'ok');
  await stopped;
});
