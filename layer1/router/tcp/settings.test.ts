/** What a TCP route can be set to. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import type { Socket } from 'node:net';
import { buffer, text } from 'node:stream/consumers';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { connect as connectTls, createServer as createTlsServer } from 'node:tls';
import { createAuthority, issueCertificate } from '@flynn/kit/tls';
import { waitFor } from '@flynn/kit/retry';
import { freePort } from '@flynn/kit/testing-ports';
import { settled, setUp, track } from '../testing.ts';
import type { World } from '../testing.ts';

async function connected(port: number): Promise<Socket> {
  return waitFor(
    async () => {
      const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
      await once(socket, 'connect');
      return socket;
    },
    { what: `port ${port}`, deadlineMs: 30_000, intervalMs: 5 },
  );
}

/** Says its name, then everything it hears. */
async function startNamed(t: TestContext, name: string) {
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    socket.write(`${name} `);
    socket.pipe(socket);
  });
  return track(t, server);
}

async function said(port: number, first: string | Buffer): Promise<string> {
  const socket = await connected(port);
  socket.end(first);
  return text(socket);
}

async function withBackends(t: TestContext, names: string[], world: World) {
  const backends = await Promise.all(names.map((name) => startNamed(t, name)));
  for (const { address } of backends) world.plane.up('db', address);
  await settled(
    world.router,
    backends.map(({ address }) => address),
  );
  return backends;
}

test('a connection goes to the backend with the fewest', async (t) => {
  const world = await setUp(t);
  const port = await freePort();
  world.plane.setRoute({ id: 't', type: 'tcp', port, service: 'db' });
  await withBackends(t, ['a', 'b', 'c'], world);
  const open: Socket[] = [];
  for (let count = 0; count < 9; count += 1) {
    const socket = await connected(port);
    await once(socket, 'data');
    open.push(socket);
  }
  const counts = world.router.status().backends.map(({ inFlight }) => inFlight);
  assert.deepEqual(counts, [3, 3, 3]);
  for (const socket of open) socket.destroy();
});

test('a leader route goes to the leader, follows the next one, and is closed while there is none', async (t) => {
  const world = await setUp(t);
  const port = await freePort();
  world.plane.setRoute({ id: 't', type: 'tcp', port, service: 'db', tcp: { leader: true } });
  const [a, b] = await withBackends(t, ['a', 'b'], world);
  assert.ok(a !== undefined && b !== undefined);
  assert.equal(await said(port, ''), '');
  world.plane.lead('db', a.address);
  await waitFor(async () => (await said(port, 'x')) === 'a x', { what: 'a to lead', deadlineMs: 30_000 });
  for (let count = 0; count < 5; count += 1) assert.equal(await said(port, 'x'), 'a x');
  world.plane.lead('db', b.address);
  await waitFor(async () => (await said(port, 'x')) === 'b x', { what: 'b to lead', deadlineMs: 30_000 });
});

test('the backend is told whom a connection is from, in both versions', async (t) => {
  const world = await setUp(t);
  const [v1, v2] = [await freePort(), await freePort()];
  const server = createServer({ allowHalfOpen: true }, (socket) => socket.pipe(socket));
  const backend = await track(t, server);
  world.plane.up('db', backend.address);
  world.plane.setRoute({ id: 't1', type: 'tcp', port: v1, service: 'db', tcp: { proxyProtocol: 'v1' } });
  world.plane.setRoute({ id: 't2', type: 'tcp', port: v2, service: 'db', tcp: { proxyProtocol: 'v2' } });
  await settled(world.router, [backend.address]);
  const socket = await connected(v1);
  const { localPort } = socket;
  socket.end('hello');
  assert.equal(await text(socket), `PROXY TCP4 127.0.0.1 127.0.0.1 ${localPort} ${v1}\r\nhello`);
  const binary = await connected(v2);
  const { localPort: binaryPort } = binary;
  binary.end('hello');
  const bytes = await buffer(binary);
  assert.equal(bytes.readUInt16BE(24), binaryPort);
  assert.equal(bytes.subarray(28).toString(), 'hello');
});

test('a connection without a byte in either direction is ended after the route’s time, one with some is not', async (t) => {
  const world = await setUp(t);
  const port = await freePort();
  const server = createServer((socket) => {
    socket.resume();
    const ticking = setInterval(() => socket.write('.'), 100);
    socket.once('close', () => clearInterval(ticking));
    socket.once('data', () => clearInterval(ticking));
  });
  const backend = await track(t, server);
  world.plane.up('db', backend.address);
  world.plane.setRoute({ id: 't', type: 'tcp', port, service: 'db', tcp: { idleMs: 1_000 } });
  await settled(world.router, [backend.address]);
  const socket = await connected(port);
  let heard = 0;
  socket.on('data', (chunk: Buffer) => (heard += chunk.length));
  await waitFor(() => heard > 5, { what: 'some bytes', deadlineMs: 60_000 });
  // A standstill of all that is in this process is nobody's silence.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_500);
  await waitFor(() => heard > 15, { what: 'more than the time', deadlineMs: 60_000 });
  socket.write('stop');
  await assert.rejects(once(socket, 'end'), /ECONNRESET/);
  await waitFor(() => backend.sockets.size === 0, { what: 'the backend to hear of it', deadlineMs: 30_000 });
});

test('several routes share a port by the server name, and TLS ends at the backend', async (t) => {
  const world = await setUp(t);
  const port = await freePort();
  const authority = await createAuthority('test');
  for (const [service, name] of [
    ['one', 'one.test'],
    ['two', 'two.test'],
    ['more', '*.more.test'],
  ] as const) {
    const credentials = await issueCertificate(authority, { name, addresses: [name] });
    const server = createTlsServer(
      { cert: credentials.certificate, key: credentials.privateKey },
      (socket) => void socket.end(`this is ${name}`),
    );
    const backend = await track(t, server);
    world.plane.up(service, backend.address);
    world.plane.setRoute({ id: service, type: 'tcp', port, service, tcp: { serverName: name } });
  }
  await connected(port).then((socket) => socket.destroy());
  const ask = async (servername: string) => {
    const socket = connectTls({ host: '127.0.0.1', port, servername, ca: authority.certificate });
    return text(socket);
  };
  for (const name of ['one.test', 'two.test']) {
    await waitFor(async () => (await ask(name)) === `this is ${name}`, { what: name, deadlineMs: 30_000 });
  }
  await waitFor(async () => (await ask('any.more.test')) === 'this is *.more.test', {
    what: 'more',
    deadlineMs: 30_000,
  });
  assert.equal(await ask('other.test').catch(() => ''), '');
  const plain = await connected(port);
  plain.write('GET / HTTP/1.1\r\n\r\n');
  assert.equal(await text(plain).catch(() => ''), '');
});

test('a megabyte each way at once arrives whole, however slowly it is taken', async (t) => {
  const world = await setUp(t);
  const port = await freePort();
  world.plane.setRoute({ id: 't', type: 'tcp', port, service: 'db' });
  await withBackends(t, ['a'], world);
  const payload = Buffer.alloc(4 * 1024 * 1024, 'abcdefghijklmnopqrstuvwxyz0123456789');
  const socket = await connected(port);
  socket.end(payload);
  const parts: Buffer[] = [];
  for await (const chunk of socket) {
    parts.push(chunk);
    if (parts.length % 16 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  assert.ok(Buffer.concat(parts).equals(Buffer.concat([Buffer.from('a '), payload])));
});

test('of a trusted proxy the header is believed and required, of others neither', async (t) => {
  const world = await setUp(t, {}, undefined, { trustedProxies: ['127.0.0.1'], proxyProtocol: true });
  const port = await freePort();
  world.plane.setRoute({ id: 't', type: 'tcp', port, service: 'db', tcp: { proxyProtocol: 'v1' } });
  const server = createServer({ allowHalfOpen: true }, (socket) => socket.pipe(socket));
  const backend = await track(t, server);
  world.plane.up('db', backend.address);
  await settled(world.router, [backend.address]);
  const socket = await connected(port);
  for (const part of ['PROXY TCP4 203.0', '.113.7 198.51.100.1 51234 5432\r', '\nhello']) {
    socket.write(part);
    await new Promise((resolve) => setImmediate(resolve));
  }
  socket.end();
  assert.equal(await text(socket), `PROXY TCP4 203.0.113.7 127.0.0.1 51234 ${port}\r\nhello`);
  const silent = await connected(port);
  silent.on('error', () => {});
  silent.end('hello');
  assert.equal(await text(silent).catch(() => ''), '');
});
