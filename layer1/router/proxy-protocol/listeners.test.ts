/** The header in front of HTTP and of TLS. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { connect as connectTls } from 'node:tls';
import { hasProxyProtocol } from '../config.ts';
import { settled, startBackend } from '../testing.ts';
import { servedBy, setUpTls } from '../tls/testing.ts';

const header = 'PROXY TCP4 203.0.113.7 198.51.100.1 51234 443\r\n';
const request = 'GET / HTTP/1.1\r\nHost: app.test\r\nConnection: close\r\n\r\n';

async function worldWith(t: TestContext, ...trustedProxies: string[]) {
  const world = await setUpTls(t, {
    trustedProxies,
    first: async (authority) => [await servedBy(authority, { id: 'c1', domains: ['app.test'] })],
  });
  const backend = await startBackend(t, ({ headers }, response) => {
    response.end(`${String(headers['x-forwarded-for'])} ${String(headers['x-forwarded-proto'])}`);
  });
  world.plane.up('web', backend.address);
  await settled(world.router, [backend.address]);
  return world;
}

async function say(port: number, said: string): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  socket.write(said);
  return text(socket).catch(() => '');
}

test('whom a trusted proxy says a request is from is whom the app hears of, in one piece and in several', async (t) => {
  const { router } = await worldWith(t, '127.0.0.0/8');
  assert.match(await say(router.httpPort, header + request), /\r\n\r\n203\.0\.113\.7 http$/);
  const socket = connect(router.httpPort, '127.0.0.1');
  for (const part of [header.slice(0, 9), header.slice(9) + request.slice(0, 4), request.slice(4)]) {
    socket.write(part);
    await new Promise((resolve) => setImmediate(resolve));
  }
  assert.match(await text(socket), /\r\n\r\n203\.0\.113\.7 http$/);
});

test('a trusted proxy that says nothing of whom a connection is from is cut off; others are believed nothing', async (t) => {
  const trusting = await worldWith(t, '127.0.0.1');
  assert.equal(await say(trusting.router.httpPort, request), '');
  const wary = await worldWith(t, '192.0.2.0/24', '2001:db8::/32');
  assert.match(await say(wary.router.httpPort, request), /\r\n\r\n127\.0\.0\.1 http$/);
  assert.match(await say(wary.router.httpPort, header + request), /^HTTP\/1\.1 400 /);
});

test('before TLS too', async (t) => {
  const world = await worldWith(t, '127.0.0.1');
  const raw = connect(world.port, '127.0.0.1');
  await once(raw, 'connect');
  raw.write(header);
  const socket = connectTls({ socket: raw, servername: 'app.test', ca: world.authority.certificate });
  socket.write(request);
  assert.match(await text(socket), /\r\n\r\n203\.0\.113\.7 https$/);
});

test('a connection that is reset before or within its header takes nothing else with it', async (t) => {
  const world = await worldWith(t, '127.0.0.0/8');
  for (const port of [world.router.httpPort, world.port]) {
    for (const said of ['', header.slice(0, 9)]) {
      const socket = connect(port, '127.0.0.1');
      await once(socket, 'connect');
      if (said !== '') await new Promise((resolve) => socket.write(said, resolve));
      // Connections are taken in their order: once the next one is done with, this one was taken.
      await say(port, request);
      socket.resetAndDestroy();
      await once(socket, 'close');
    }
  }
  assert.match(await say(world.router.httpPort, header + request), /\r\n\r\n203\.0\.113\.7 http$/);
});

test('it can be on only where somebody is believed', () => {
  const of = (protocol: 'on' | 'off', FLYNN_TRUSTED_PROXIES: string[]) =>
    hasProxyProtocol({ FLYNN_PROXY_PROTOCOL: protocol, FLYNN_TRUSTED_PROXIES });
  assert.equal(of('off', []), false);
  assert.equal(of('off', ['10.0.0.0/8']), false);
  assert.equal(of('on', ['10.0.0.0/8']), true);
  assert.throws(() => of('on', []), /say whose word is taken with FLYNN_TRUSTED_PROXIES/);
});

test('who has yet to say whom a connection is from when the router is told to stop is answered all the same', async (t) => {
  const { router } = await worldWith(t, '127.0.0.0/8');
  const socket = connect(router.httpPort, '127.0.0.1');
  await once(socket, 'connect');
  const stopped = router.stop({ drainMs: 60_000 });
  socket.write(header + request);
  assert.match(await text(socket), /\r\n\r\n203\.0\.113\.7 http$/);
  await stopped;
});
