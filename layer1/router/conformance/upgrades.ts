import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { closed } from '@flynn/kit/testing-sockets';
import { WebSocket, WebSocketServer } from 'ws';
import { sayRaw, setUp as setUpRouter, settled, startBackend, track, standstillMs } from '../testing.ts';
import type { Driver } from '../config.ts';
import type { Timeouts } from '../exchange.ts';

/** Upgrades. */
export function upgradeConformance(driver: Driver): void {
  const setUp = (t: TestContext, timeouts?: Partial<Timeouts>) => setUpRouter(t, timeouts, driver);

  const upgradeHead = (extra = '') =>
    `GET /socket HTTP/1.1\r\nHost: app.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n${extra}\r\n`;

  async function startEcho(t: TestContext) {
    const server = createServer();
    const sockets = new WebSocketServer({ server });
    sockets.on('connection', (socket, request) => {
      socket.send(JSON.stringify({ url: request.url, headers: request.headers }));
      socket.on('message', (data, isBinary) => socket.send(data, { binary: isBinary }));
    });
    t.after(() => sockets.close());
    return track(t, server);
  }

  function open(port: number): WebSocket {
    return new WebSocket(`ws://127.0.0.1:${port}/socket?x=1`, { headers: { host: 'app.test', cookie: 'a=1' } });
  }

  test('a WebSocket carries messages both ways, large ones too', async (t) => {
    const { plane, router, port } = await setUp(t);
    const backend = await startEcho(t);
    plane.up('web', backend.address);
    await settled(router, [backend.address]);
    const socket = open(port);
    const [hello] = await once(socket, 'message');
    const seen = JSON.parse(String(hello));
    assert.equal(seen.url, '/socket?x=1');
    assert.equal(seen.headers.host, 'app.test');
    assert.equal(seen.headers.cookie, 'a=1');
    assert.equal(seen.headers['x-forwarded-for'], '127.0.0.1');
    assert.match(seen.headers['x-request-id'], /^[0-9a-f-]{36}$/);
    const data = Buffer.alloc(2_000_000, 'z');
    socket.send(data);
    const [echo] = await once(socket, 'message');
    assert.ok(data.equals(Buffer.from(echo)));
    assert.equal(router.status().backends[0]?.inFlight, 1);
    socket.close();
    await once(socket, 'close');
    await waitFor(() => router.status().backends[0]?.inFlight === 0, { what: 'the end', deadlineMs: 30_000 });
    await waitFor(() => backend.sockets.size === 0, { what: 'no socket to be left', deadlineMs: 30_000 });
  });

  test('an unreachable backend is passed over, and the refusals of the router are HTTP answers', async (t) => {
    const { plane, router, port } = await setUp(t);
    assert.match(await sayRaw(port, upgradeHead()), /^HTTP\/1.1 503 .*no-backends/s);
    assert.match(await sayRaw(port, upgradeHead().replace('app.test', 'x.test')), /^HTTP\/1.1 404 .*unknown-host/s);
    assert.match(await sayRaw(port, upgradeHead('Content-Length: 5\r\n')), /^HTTP\/1.1 400 /);
    const gone = await startBackend(t, () => {});
    const backend = await startEcho(t);
    plane.up('web', gone.address);
    plane.up('web', backend.address);
    await settled(router, [gone.address, backend.address]);
    await gone.close();
    for (let i = 0; i < 6; i += 1) {
      const socket = open(port);
      await once(socket, 'message');
      socket.terminate();
    }
  });

  test('an app that refuses the upgrade is passed on, one that breaks off becomes a 502, a silent one a 504', async (t) => {
    const { plane, router, port } = await setUp(t, { firstByteMs: standstillMs });
    const server = createServer();
    server.on('upgrade', (request, socket) => {
      // Reads, and so notices when the other side goes.
      socket.resume().on('end', () => socket.destroy());
      if (request.headers['x-do'] === 'refuse') socket.end('HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno');
      if (request.headers['x-do'] === 'break') socket.destroy();
    });
    const backend = await track(t, server);
    plane.up('web', backend.address);
    await settled(router, [backend.address]);
    assert.match(await sayRaw(port, upgradeHead('X-Do: refuse\r\n')), /^HTTP\/1.1 403 Forbidden.*no$/s);
    assert.match(await sayRaw(port, upgradeHead('X-Do: break\r\n')), /^HTTP\/1.1 502 /);
    assert.match(await sayRaw(port, upgradeHead('X-Do: nothing\r\n')), /^HTTP\/1.1 504 /);
    await waitFor(() => backend.sockets.size === 0, { what: 'no socket to be left', deadlineMs: 30_000 });
  });

  test('clients that vanish leave no connection to the app, before the upgrade and after', async (t) => {
    const { plane, router, port } = await setUp(t, { firstByteMs: 60_000, idleMs: 60_000 });
    const server = createServer();
    server.on('upgrade', (request, socket) => {
      // Reads, and so notices when the other side goes.
      socket.resume().on('end', () => socket.destroy());
      socket.on('error', () => socket.destroy());
      if (request.headers['x-do'] === undefined)
        socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
    });
    const backend = await track(t, server);
    plane.up('web', backend.address);
    await settled(router, [backend.address]);
    const clients = Array.from({ length: 10 }, (_, i) => {
      const socket = connect(port, '127.0.0.1');
      socket.write(upgradeHead(i % 2 ? 'X-Do: wait\r\n' : ''));
      return socket;
    });
    await waitFor(() => backend.sockets.size === 10, { what: 'all to be there', deadlineMs: 30_000 });
    // Some in order, and some not.
    for (const [i, client] of clients.entries()) {
      if (i < 5) client.resetAndDestroy();
      else client.destroy();
    }
    await waitFor(() => backend.sockets.size === 0, { what: 'no socket to be left', deadlineMs: 30_000 });
  });

  test('a silent WebSocket is closed, one that says something stays', async (t) => {
    const { plane, router, port } = await setUp(t, { idleMs: 1_000 });
    const backend = await startEcho(t);
    plane.up('web', backend.address);
    await settled(router, [backend.address]);
    const silent = open(port);
    const lively = open(port);
    await Promise.all([once(silent, 'open'), once(lively, 'open')]);
    const beat = setInterval(() => lively.send('x'), 50);
    t.after(() => {
      clearInterval(beat);
      lively.terminate();
    });
    await once(silent, 'close');
    assert.equal(lively.readyState, WebSocket.OPEN);
  });

  test('an upgrade to something else is answered as an ordinary request', async (t) => {
    const { plane, router, url } = await setUp(t);
    const backend = await startBackend(t, (request, response) => response.end(String(request.headers.upgrade)));
    plane.up('web', backend.address);
    await settled(router, [backend.address]);
    const answer = await sayRaw(
      Number(new URL(url).port),
      'GET / HTTP/1.1\r\nHost: app.test\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\n\r\n',
    );
    assert.match(answer, /^HTTP\/1.1 200 OK.*undefined/s);
  });

  test('an upgrade to the protocol of attached jobs carries bytes both ways, also those that come early', async (t) => {
    const { plane, router, port } = await setUp(t);
    const server = createServer();
    server.on('upgrade', (request, socket, head) => {
      const { upgrade, connection, 'x-forwarded-for': from } = request.headers;
      socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: flynn\r\n\r\n');
      socket.write(`${request.url} ${upgrade} ${connection} ${String(from)}\n${head.toString()}`);
      socket.on('data', (chunk) => socket.write(chunk));
      socket.on('end', () => socket.end('bye'));
    });
    const backend = await track(t, server);
    plane.up('web', backend.address);
    await settled(router, [backend.address]);
    const socket = connect(port, '127.0.0.1');
    const chunks: Buffer[] = [];
    socket.on('data', (chunk: Buffer) => chunks.push(chunk));
    const said = () => Buffer.concat(chunks).toString();
    socket.write(upgradeHead().replace('Upgrade: websocket', 'Upgrade: flynn') + 'early');
    await waitFor(() => said().endsWith('early'), { what: 'the echo', deadlineMs: 30_000 });
    assert.match(said(), /^HTTP\/1.1 101 .*upgrade: flynn\r\n.*\r\n\/socket flynn Upgrade 127.0.0.1\nearly$/is);
    socket.write(Buffer.alloc(1_000_000, 'z'));
    await waitFor(() => said().endsWith('early'.padEnd(1_000_005, 'z')), { what: 'all of it', deadlineMs: 30_000 });
    const ended = closed(socket);
    socket.end();
    await ended;
    await waitFor(() => backend.sockets.size === 0, { what: 'no socket to be left', deadlineMs: 30_000 });
  });

  test('a large ordinary answer to an upgrade waits for a slow client, and reaches it whole', async (t) => {
    const { plane, router, port } = await setUp(t);
    const bytes = 40_000_000;
    let isOut = false;
    let taken = 0;
    const pieces = function* () {
      for (; taken < bytes; taken += 100_000) yield Buffer.alloc(100_000, 'z');
    };
    const backend = await startBackend(t, (_request, response) => {
      response.on('finish', () => (isOut = true));
      response.writeHead(200, { 'content-length': bytes, connection: 'close' });
      Readable.from(pieces()).pipe(response);
    });
    plane.up('web', backend.address);
    await settled(router, [backend.address]);
    const socket = connect(port, '127.0.0.1');
    socket.write(upgradeHead());
    await once(socket, 'readable');
    // A router that reads without being read from takes all of it; one that does not lets it come to a halt.
    let before = -1;
    const isAtRest = () => before === (before = taken);
    await waitFor(isAtRest, { what: 'the app to get nothing more out', deadlineMs: 60_000, intervalMs: 300 });
    assert.equal(isOut, false);
    let got = 0;
    for await (const chunk of socket) got += chunk.length;
    assert.ok(got > bytes, `${got}`);
  });

  test('an app that goes silent in an ordinary answer to an upgrade is given up', async (t) => {
    const { plane, router, port } = await setUp(t, { idleMs: 1_000 });
    const backend = await startBackend(t, (_request, response) => void response.write('begun'));
    plane.up('web', backend.address);
    await settled(router, [backend.address]);
    assert.match(await sayRaw(port, upgradeHead()), /^HTTP\/1.1 200 .*begun/s);
    await waitFor(() => backend.sockets.size === 0, { what: 'no socket to be left', deadlineMs: 30_000 });
  });

  test('refused upgrades leave no connection of the router open', async (t) => {
    const { router, port } = await setUp(t);
    for (let i = 0; i < 3; i += 1) assert.match(await sayRaw(port, upgradeHead()), /^HTTP\/1.1 503 /);
    const lingering = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    t.after(() => lingering.destroy());
    lingering.on('error', () => lingering.destroy());
    lingering.resume().write(upgradeHead());
    await once(lingering, 'end');
    const startedMs = performance.now();
    await router.stop({ drainMs: 60_000 });
    assert.ok(performance.now() - startedMs < 50_000);
  });
}
