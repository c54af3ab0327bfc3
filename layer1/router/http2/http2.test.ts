import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { connect } from 'node:net';
import { buffer, text } from 'node:stream/consumers';
import { describe, test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { closed } from '@flynn/kit/testing-sockets';
import { WebSocketServer } from 'ws';
import { startBackend, track } from '../testing.ts';
import { backendAt, openDoor, replyOf, request } from './testing.ts';

const soon = { deadlineMs: 60_000, intervalMs: 5 };

for (const isTls of [true, false]) {
  describe(`HTTP/2 ${isTls ? 'over TLS' : 'with prior knowledge'} to an HTTP/1.1 backend`, () => {
    test('a request reaches it as HTTP/1.1, and its answer comes back', async (t) => {
      const door = await openDoor(t, { isTls });
      const backend = await startBackend(t, (incoming, response) => {
        response.writeHead(201, { 'X-Reply': 'yes', 'set-cookie': ['a=1', 'b=2'], connection: 'x-hop', 'x-hop': '1' });
        response.end(JSON.stringify({ line: `${incoming.method} ${incoming.url}`, headers: incoming.headers }));
      });
      door.policy.backends = [backendAt(backend.port)];
      const fields = {
        cookie: ['c=1', 'd=2'],
        'x-request-id': 'forged',
        'x-removed': '1',
        te: 'trailers',
        'x-mine': 'é',
      };
      const reply = await replyOf(request(door.connect(), { ':path': '/a?b=c', ...fields }));
      assert.equal(reply.status, 201);
      assert.equal(reply.headers['x-reply'], 'yes');
      assert.deepEqual(reply.headers['set-cookie'], ['a=1', 'b=2']);
      assert.equal(reply.headers['x-request-id'], 'id-1');
      assert.equal(reply.headers['connection'], undefined);
      assert.equal(reply.headers['x-hop'], undefined);
      const { line, headers } = JSON.parse(reply.body);
      assert.equal(line, 'GET /a?b=c');
      assert.equal(headers.host, 'app.test');
      assert.equal(headers.cookie, 'c=1; d=2');
      assert.equal(headers['x-request-id'], 'id-1');
      assert.equal(headers['x-forwarded-proto'], 'https');
      assert.equal(headers['x-removed'], undefined);
      assert.equal(headers.te, undefined);
      await waitFor(() => door.policy.endings.length === 1, { what: 'its end', ...soon });
      const bytesOut = Buffer.byteLength(reply.body);
      assert.deepEqual(door.policy.endings, [{ status: 201, bytesIn: 0, bytesOut, how: 'answered' }]);
      assert.equal(door.policy.inUse, 0);
    });

    test('bodies go through whole in both directions at once, with a length and without', async (t) => {
      const door = await openDoor(t, { isTls });
      const backend = await startBackend(t, (incoming, response) => incoming.pipe(response));
      door.policy.backends = [backendAt(backend.port)];
      const session = door.connect();
      const body = randomBytes(3_000_000);
      for (const fields of [{}, { 'content-length': String(body.length) }]) {
        const stream = request(session, { ':method': 'POST', ...fields }, false);
        stream.end(body);
        assert.ok((await buffer(stream)).equals(body));
      }
    });

    test('many requests at once share few connections, which are used again', async (t) => {
      const door = await openDoor(t, { isTls });
      const backend = await startBackend(t, (incoming, response) => response.end(incoming.url));
      door.policy.backends = [backendAt(backend.port)];
      const session = door.connect();
      for (let round = 0; round < 5; round += 1) {
        const paths = Array.from({ length: 100 }, (_, i) => `/${round}-${i}`);
        const replies = await Promise.all(paths.map((path) => replyOf(request(session, { ':path': path }))));
        assert.deepEqual(
          replies.map((reply) => reply.body),
          paths,
        );
      }
      assert.ok(backend.sockets.size <= 100, String(backend.sockets.size));
      await waitFor(() => door.policy.endings.length >= 500, { what: 'all ends', ...soon });
      assert.equal(door.policy.endings.length, 500);
    });
  });
}

describe('a request', () => {
  test('that waits for 100 is told to go on once there is a backend', async (t) => {
    const door = await openDoor(t);
    const seen: (string | undefined)[] = [];
    const backend = await startBackend(t, async (incoming, response) => {
      seen.push(incoming.headers.expect);
      response.end(await text(incoming));
    });
    door.policy.backends = [backendAt(backend.port)];
    const stream = request(door.connect(), { ':method': 'POST', expect: '100-continue' }, false);
    stream.once('continue', () => stream.end('body'));
    assert.equal((await replyOf(stream)).body, 'body');
    assert.deepEqual(seen, [undefined]);
  });

  test('takes its trailers to the backend, but for those that frame, authorise or say who asks', async (t) => {
    const door = await openDoor(t);
    const backend = await startBackend(t, async (incoming, response) => {
      await text(incoming);
      response.end(JSON.stringify(incoming.trailers));
    });
    door.policy.backends = [backendAt(backend.port)];
    const stream = door.connect().request({ ':authority': 'app.test', ':method': 'POST' }, { waitForTrailers: true });
    const forged = { 'x-forwarded-for': '192.0.2.1', x_flynn_client: '192.0.2.1', 'x-request-id': 'forged' };
    stream.on('wantTrailers', () =>
      stream.sendTrailers({ 'x-sum': '1', authorization: 'no', host: 'evil', ...forged }),
    );
    stream.end('body');
    assert.deepEqual(JSON.parse((await replyOf(stream)).body), { 'x-sum': '1' });
  });

  test('longer than its route takes is refused at once, whether it says so or not', async (t) => {
    const door = await openDoor(t);
    const backend = await startBackend(t, async (incoming, response) => {
      await assert.rejects(text(incoming), { code: 'ECONNRESET' }, 'the router breaks it off');
      response.end();
    });
    door.policy.backends = [backendAt(backend.port)];
    door.policy.limits = { ...door.policy.limits, bodyBytes: 1_000 };
    for (const fields of [{ 'content-length': '1001' }, {}]) {
      const stream = request(door.connect(), { ':method': 'POST', ...fields }, false);
      stream.write(Buffer.alloc(1_001));
      assert.equal((await replyOf(stream)).status, 413);
    }
  });

  test('is collected before a backend is taken, if the route asks for it', async (t) => {
    const door = await openDoor(t);
    const backend = await startBackend(t, async (incoming, response) => response.end(await text(incoming)));
    door.policy.backends = [backendAt(backend.port)];
    door.policy.limits = { ...door.policy.limits, bufferBytes: 100_000 };
    const stream = request(door.connect(), { ':method': 'POST' }, false);
    stream.write('first');
    await waitFor(() => door.policy.heads.length === 1, { what: 'the request', ...soon });
    assert.equal(door.policy.inUse, 0);
    stream.end(' last');
    assert.equal((await replyOf(stream)).body, 'first last');
    const large = request(door.connect(), { ':method': 'POST' }, false);
    const body = randomBytes(600_000);
    large.end(body);
    assert.equal((await replyOf(large)).body, body.toString());
  });

  test('one session has only so much collected, whatever one buffer may have, and no body is refused for it', async (t) => {
    const door = await openDoor(t);
    const backend = await startBackend(t, async (incoming, response) => response.end(await text(incoming)));
    door.policy.backends = [backendAt(backend.port)];
    const size = 1_000_000;
    door.policy.limits = { ...door.policy.limits, bufferBytes: size + 1 };
    const session = door.connect();
    const streams = Array.from({ length: 10 }, () => request(session, { ':method': 'POST' }, false));
    for (const stream of streams) stream.write('a'.repeat(size));
    await waitFor(() => door.policy.inUse >= 5, { what: 'backends to be taken before the bodies are whole', ...soon });
    for (const stream of streams) stream.end();
    for (const stream of streams) assert.equal((await replyOf(stream)).body.length, size);
    // All that was counted is counted no more.
    const used = door.policy.inUse;
    const last = Array.from({ length: 4 }, () => request(session, { ':method': 'POST' }, false));
    await Promise.all(last.map((stream) => new Promise((resolve) => stream.write('b'.repeat(size), resolve))));
    assert.equal(door.policy.inUse, used);
    for (const stream of last) stream.end();
    for (const stream of last) assert.equal((await replyOf(stream)).body.length, size);
  });

  test('one alone has all of a large buffer', async (t) => {
    const door = await openDoor(t);
    const backend = await startBackend(t, async (incoming, response) => response.end(await text(incoming)));
    door.policy.backends = [backendAt(backend.port)];
    door.policy.limits = { ...door.policy.limits, bufferBytes: 8_000_000 };
    const stream = request(door.connect(), { ':method': 'POST' }, false);
    await new Promise((resolve) => stream.write('a'.repeat(6_000_000), resolve));
    assert.equal(door.policy.inUse, 0);
    // In pieces of a byte each, too.
    for (let i = 0; i < 10_000; i += 1) stream.write('b');
    stream.end();
    assert.equal((await replyOf(stream)).body, `${'a'.repeat(6_000_000)}${'b'.repeat(10_000)}`);
  });

  test('for an unknown host is answered by the policy', async (t) => {
    const door = await openDoor(t);
    const reply = await replyOf(request(door.connect(), { ':authority': 'other.test' }));
    assert.equal(reply.status, 404);
    assert.equal(reply.headers['x-flynn-error'], 'unknown-host');
    assert.equal(reply.body, 'nobody');
  });
});

describe('a WebSocket over HTTP/2', () => {
  test('talks both ways with an HTTP/1.1 backend, and its end is the end of both', async (t) => {
    const door = await openDoor(t);
    const backend = await startBackend(t, (_incoming, response) => response.end('no'));
    const sockets = new WebSocketServer({ noServer: true });
    const http = createHttpServer();
    http.on('upgrade', (incoming, socket, head) => {
      sockets.handleUpgrade(incoming, socket, head, (ws) => {
        ws.on('message', (data: Buffer) => ws.send(`${incoming.url} ${data.toString()}`));
      });
    });
    const webSockets = await track(t, http);
    door.policy.backends = [backendAt(webSockets.port)];
    const session = door.connect();
    await once(session, 'remoteSettings');
    const ask = () =>
      session.request(
        {
          ':method': 'CONNECT',
          ':protocol': 'websocket',
          ':scheme': 'http',
          ':authority': 'app.test',
          ':path': '/ws',
          'sec-websocket-version': '13',
        },
        { endStream: false },
      );
    const stream = ask();
    const [headers] = await once(stream, 'response');
    assert.equal(headers[':status'], 200);
    assert.equal(headers['sec-websocket-accept'], undefined);
    assert.equal(door.policy.heads[0]?.upgrade, 'websocket');
    // A masked text frame "hi", the mask being zeros.
    stream.write(Buffer.from([0x81, 0x82, 0, 0, 0, 0, 0x68, 0x69]));
    const [answer] = await once(stream, 'data');
    assert.equal(String(answer.subarray(2)), '/ws hi');
    stream.end();
    await once(stream, 'close');
    await waitFor(() => webSockets.sockets.size === 0, { what: 'the backend connection to end', ...soon });
    door.policy.backends = [backendAt(backend.port)];
    const refused = ask();
    refused.on('error', () => undefined);
    assert.equal((await replyOf(refused)).body, 'backend-broke');
    assert.equal(door.policy.inUse, 0);
  });
});

test('draining lets what is under way end, and refuses the rest as not done', async (t) => {
  const door = await openDoor(t);
  const waiting: (() => void)[] = [];
  const backend = await startBackend(t, (incoming, response) => {
    if (incoming.url === '/wait') waiting.push(() => response.end('late'));
    else response.end('quick');
  });
  door.policy.backends = [backendAt(backend.port)];
  const [session, idle] = [door.connect(), door.connect()];
  const slow = replyOf(request(session, { ':path': '/wait' }));
  await waitFor(() => waiting.length === 1 && door.front.connections === 2, { what: 'both connections', ...soon });
  const goaway = once(idle, 'goaway');
  const drained = door.front.drain({ deadlineMs: 60_000 });
  // It has not heard of the end yet when it asks.
  await assert.rejects(replyOf(request(session)), /reset 7/);
  await goaway;
  await waitFor(() => door.front.connections === 1, { what: 'the idle connection to end', ...soon });
  // What was in the queue of the port is still answered, unless a connection has its goodbye before it has asked.
  const answered = async () => (await replyOf(request(door.connect()))).body;
  assert.equal(await waitFor(answered, { what: 'an answer', ...soon }), 'quick');
  waiting[0]?.();
  assert.equal((await slow).body, 'late');
  await drained;
  assert.equal(door.front.connections, 0);
  assert.equal(door.policy.heads.length, 2);
});

test('a client that says nothing of HTTP/2 is let go of', async (t) => {
  const door = await openDoor(t);
  const socket = connect(door.port, '127.0.0.1');
  socket.on('error', () => undefined);
  socket.resume();
  socket.write('GET / HTTP/1.1\r\nhost: app.test\r\n\r\n');
  await closed(socket);
  assert.equal(door.policy.heads.length, 0);
});
