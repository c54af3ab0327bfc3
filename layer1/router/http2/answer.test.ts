import assert from 'node:assert/strict';
import { once } from 'node:events';
import { constants } from 'node:http2';
import { createServer } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { describe, test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { startBackend, startWorkingBackend, track } from '../testing.ts';
import { backendAt, openDoor, replyOf, request } from './testing.ts';

const soon = { deadlineMs: 60_000, intervalMs: 5 };

describe('an answer', () => {
  test('without a body is whole at once: HEAD, 204, 304', async (t) => {
    const door = await openDoor(t);
    const backend = await startBackend(t, (incoming, response) => {
      response.statusCode = Number(incoming.url?.slice(1));
      response.setHeader('x-a', '1');
      if (incoming.method === 'HEAD') response.setHeader('content-length', '5');
      response.end();
    });
    door.policy.backends = [backendAt(backend.port)];
    const session = door.connect();
    const head = await replyOf(request(session, { ':method': 'HEAD', ':path': '/200' }));
    assert.equal(head.headers['content-length'], '5');
    for (const status of [204, 304]) {
      assert.equal((await replyOf(request(session, { ':path': `/${status}` }))).status, status);
    }
    assert.equal(backend.sockets.size, 1);
  });

  test('comes after as many hints as fit 64 KB, of however many', async (t) => {
    const door = await openDoor(t);
    const backend = await startBackend(t, (_incoming, response) => {
      for (let i = 0; i < 100; i += 1) response.writeEarlyHints({ link: `</${'a'.repeat(2_000)}>; rel=preload` });
      response.end('body');
    });
    door.policy.backends = [backendAt(backend.port)];
    const reply = await replyOf(request(door.connect()));
    assert.equal(reply.body, 'body');
    assert.ok(reply.informations.length > 20 && reply.informations.length < 33, String(reply.informations.length));
  });

  test('comes with hints before and trailers after it', async (t) => {
    const door = await openDoor(t);
    const backend = await startBackend(t, (_incoming, response) => {
      response.writeEarlyHints({ link: '</a.css>; rel=preload' });
      response.writeHead(200, { trailer: 'x-sum' });
      response.write('body');
      response.addTrailers({ 'x-sum': 'abc' });
      response.end();
    });
    door.policy.backends = [backendAt(backend.port)];
    const reply = await replyOf(request(door.connect()));
    assert.equal(reply.body, 'body');
    assert.equal(reply.trailers['x-sum'], 'abc');
    assert.deepEqual(
      reply.informations.map((fields) => [fields[':status'], fields['link']]),
      [[103, '</a.css>; rel=preload']],
    );
  });

  test('loses what HTTP/2 may not say, before its body and after it', async (t) => {
    const door = await openDoor(t);
    const settings = 'HTTP2-Settings: x\r\n';
    const head = `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n${settings}\r\n`;
    const tail = `0\r\nX-Sum: 1\r\n${settings}X-Request-Id: forged\r\n\r\n`;
    const server = createServer((socket) => socket.on('data', () => socket.write(`${head}4\r\nbody\r\n${tail}`)));
    door.policy.backends = [backendAt((await track(t, server)).port)];
    const { status, body, headers, trailers } = await replyOf(request(door.connect()));
    assert.deepEqual([status, body, headers['http2-settings']], [200, 'body', undefined]);
    assert.deepEqual(Object.entries(trailers), [['x-sum', '1']]);
  });

  test('is waited for as long as its backend says that it is at work', async (t) => {
    const door = await openDoor(t);
    const firstByteMs = 2_000;
    const backend = await startWorkingBackend(t, firstByteMs * 1.5);
    door.policy.limits = { ...door.policy.limits, firstByteMs };
    door.policy.backends = [backendAt(backend.port)];
    const reply = await replyOf(request(door.connect()));
    assert.equal(reply.body, 'done');
    assert.equal(reply.informations[0]?.[':status'], 102);
  });

  test('streams: every event arrives while the answer is still open', async (t) => {
    const door = await openDoor(t);
    let say: (line: string) => void = () => undefined;
    const backend = await startBackend(t, (_incoming, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.flushHeaders();
      say = (line) => response.write(line);
    });
    door.policy.backends = [backendAt(backend.port)];
    const stream = request(door.connect());
    await once(stream, 'response');
    for (const line of ['data: 1\n\n', 'data: 2\n\n']) {
      say(line);
      const [bytes] = await once(stream, 'data');
      assert.equal(String(bytes), line);
    }
    stream.close(constants.NGHTTP2_CANCEL);
    await waitFor(() => backend.sockets.size === 0, { what: 'the backend to hear that the client left', ...soon });
    await waitFor(() => door.policy.endings.length === 1, { what: 'its end', ...soon });
    assert.equal(door.policy.endings[0]?.how, 'client-gone');
  });

  test('may come before the request has ended, which is then not asked for any more', async (t) => {
    const door = await openDoor(t);
    const backend = await startBackend(t, (_incoming, response) => {
      response.writeHead(413, { connection: 'close' });
      response.end('no');
    });
    door.policy.backends = [backendAt(backend.port)];
    const stream = request(door.connect(), { ':method': 'POST' }, false);
    stream.write('some');
    const reply = await replyOf(stream);
    assert.equal(reply.status, 413);
    assert.equal(reply.body, 'no');
    await waitFor(() => door.policy.endings.length === 1, { what: 'its end', ...soon });
    assert.equal(door.policy.endings[0]?.how, 'answered');
  });

  test('a reader that does not read holds the backend back', async (t) => {
    const door = await openDoor(t);
    let written = 0;
    const backend = await startBackend(t, (_incoming, response) => {
      const piece = Buffer.alloc(65_536);
      const more = () => {
        while (written < 500 * piece.length && !response.destroyed) {
          written += piece.length;
          if (!response.write(piece)) {
            response.once('drain', more);
            return;
          }
        }
        response.end();
      };
      more();
    });
    door.policy.backends = [backendAt(backend.port)];
    const stream = request(door.connect());
    await once(stream, 'response');
    let before = -1;
    await waitFor(
      () => {
        const isStill = written === before;
        before = written;
        return isStill;
      },
      { what: 'the backend to stop writing', deadlineMs: 60_000, intervalMs: 300 },
    );
    assert.ok(written < 20_000_000, String(written));
    assert.equal((await buffer(stream)).length, 500 * 65_536);
  });
});
