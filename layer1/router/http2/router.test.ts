import assert from 'node:assert/strict';
import { connect, createServer } from 'node:http2';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { ask, setUp, settled, startBackend, track } from '../testing.ts';
import { setUpTls } from '../tls/testing.ts';
import { replyOf, request } from './testing.ts';

test('the plain port speaks HTTP/2 with whoever begins with it, and HTTP/1.1 with all others', async (t) => {
  const { plane, router, port } = await setUp(t);
  const backend = await startBackend(t, (incoming, response) => response.end(incoming.url));
  plane.up('web', backend.address);
  await settled(router, [backend.address]);
  const session = connect(`http://127.0.0.1:${port}`);
  const replies = await Promise.all(['/a', '/b', '/c'].map((path) => replyOf(request(session, { ':path': path }))));
  assert.deepEqual(
    replies.map((reply) => reply.body),
    ['/a', '/b', '/c'],
  );
  assert.ok(replies.every((reply) => typeof reply.headers['x-request-id'] === 'string'));
  assert.equal((await ask(port)).statusCode, 200);
  const unknown = await replyOf(request(session, { ':authority': 'other.test' }));
  assert.equal(unknown.headers['x-flynn-error'], 'unknown-host');
  const isGone = new Promise((resolve) => session.once('close', resolve));
  await router.stop({ drainMs: 5_000 });
  await isGone;
});

test('a route to h2c backends answers over HTTP/2, and over HTTP/1 too', async (t) => {
  const { plane, router, port } = await setUp(t);
  plane.setRoute({ id: 'r1', domain: 'app.test', http: { protocol: 'h2c' } });
  const server = createServer();
  server.on('stream', (stream) => {
    stream.respond({ ':status': 200 });
    stream.end('h2c');
  });
  const backend = await track(t, server);
  plane.up('web', backend.address);
  await settled(router, [backend.address]);
  const session = connect(`http://127.0.0.1:${port}`);
  const isAnswered = async () => (await replyOf(request(session))).body === 'h2c';
  await waitFor(isAnswered, { what: 'the route to change', deadlineMs: 60_000 });
  assert.equal(await text(await ask(port)), 'h2c');
  assert.equal(router.status().backends[0]?.isEjected, false);
  session.destroy();
});

test('over TLS it is agreed on at the HTTPS port', async (t) => {
  const { plane, router, port } = await setUpTls(t);
  const backend = await startBackend(t, (incoming, response) => response.end(incoming.headers['x-forwarded-proto']));
  plane.up('web', backend.address);
  await settled(router, [backend.address]);
  const session = connect(`https://127.0.0.1:${port}`, { servername: 'app.test', rejectUnauthorized: false });
  assert.equal((await replyOf(request(session))).body, 'https');
  assert.equal(session.alpnProtocol, 'h2');
  session.destroy();
});
