import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { text } from 'node:stream/consumers';
import { describe, test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { startBackend, track, standstillMs } from '../testing.ts';
import { backendAt, openDoor, replyOf, request } from './testing.ts';

const soon = { deadlineMs: 60_000, intervalMs: 5 };

describe('a backend', () => {
  test('that cannot be dialled is passed over; without another there is an honest answer', async (t) => {
    const door = await openDoor(t);
    const backend = await startBackend(t, async (incoming, response) => response.end(await text(incoming)));
    const closed = await startBackend(t, () => undefined);
    await closed.close();
    door.policy.backends = [backendAt(closed.port), backendAt(backend.port)];
    const stream = request(door.connect(), { ':method': 'POST' }, false);
    stream.end('body');
    assert.equal((await replyOf(stream)).body, 'body');
    assert.deepEqual(door.policy.failures, ['dial']);
    door.policy.backends = [backendAt(closed.port)];
    assert.equal((await replyOf(request(door.connect()))).body, 'unreachable');
    door.policy.backends = [];
    assert.equal((await replyOf(request(door.connect()))).body, 'no-backends');
    assert.equal(door.policy.inUse, 0);
  });

  test('that breaks before it answers is asked once more, if nothing could have been done twice', async (t) => {
    const door = await openDoor(t);
    let asked = 0;
    const server = createServer((socket) =>
      socket.on('data', () => {
        asked += 1;
        socket.destroy();
      }),
    );
    const backend = await track(t, server);
    door.policy.backends = [backendAt(backend.port)];
    assert.equal((await replyOf(request(door.connect()))).body, 'backend-broke');
    assert.equal(asked, 2);
    const stream = request(door.connect(), { ':method': 'POST' }, true);
    assert.equal((await replyOf(stream)).body, 'backend-broke');
    assert.equal(asked, 3);
  });

  test('that is late, or whose answer stalls, is not waited for for ever', async (t) => {
    const door = await openDoor(t);
    const backend = await startBackend(t, (incoming, response) => {
      if (incoming.url === '/begun') response.write('some');
    });
    door.policy.backends = [backendAt(backend.port)];
    door.policy.limits = { ...door.policy.limits, firstByteMs: standstillMs, idleMs: standstillMs };
    assert.equal((await replyOf(request(door.connect()))).body, 'backend-late');
    await assert.rejects(replyOf(request(door.connect(), { ':path': '/begun' })), /reset/);
    const slow = request(door.connect(), { ':method': 'POST' }, false);
    slow.write('a');
    assert.equal((await replyOf(slow)).body, 'client-slow');
    await waitFor(() => backend.sockets.size === 0, { what: 'connections to be closed', ...soon });
    assert.equal(door.policy.inUse, 0);
  });

  const bad = {
    'no HTTP': 'hello\r\n\r\n',
    'two frames': 'HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n',
    'two lengths': 'HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabcd',
    'an unknown coding': 'HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n',
    'a folded field': 'HTTP/1.1 200 OK\r\na: b\r\n c\r\n\r\n',
    'a bare newline': 'HTTP/1.1 200 OK\r\na: b\nc: d\r\n\r\n',
    'a null': 'HTTP/1.1 200 OK\r\na: b\0c\r\n\r\n',
    'an upgrade nobody asked for': 'HTTP/1.1 101 X\r\nupgrade: x\r\n\r\n',
    'an endless head': `HTTP/1.1 200 OK\r\na: ${'b'.repeat(70_000)}\r\n\r\n`,
  };
  for (const [what, answer] of Object.entries(bad)) {
    test(`that answers with ${what} is not passed on`, async (t) => {
      const door = await openDoor(t);
      const server = createServer((socket) => socket.on('data', () => socket.write(answer, 'latin1')));
      door.policy.backends = [backendAt((await track(t, server)).port)];
      assert.equal((await replyOf(request(door.connect()))).body, 'backend-broke');
    });
  }

  const short = {
    'a short body': 'HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc',
    'half a chunk': 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nabc',
    'no chunk': 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n',
    'bad trailers': 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\nno field\r\n\r\n',
  };
  for (const [what, answer] of Object.entries(short)) {
    test(`that answers with ${what} breaks the answer off`, async (t) => {
      const door = await openDoor(t);
      const server = createServer((socket) => socket.on('data', () => socket.end(answer, 'latin1')));
      door.policy.backends = [backendAt((await track(t, server)).port)];
      await assert.rejects(replyOf(request(door.connect())), /reset [12]/);
      await waitFor(() => door.policy.endings.length === 1, { what: 'its end', ...soon });
      assert.equal(door.policy.endings[0]?.how, 'broken-off');
    });
  }

  test('that says more than it announced is not used again', async (t) => {
    const door = await openDoor(t);
    const server = createServer((socket) =>
      socket.on('data', () => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\n')),
    );
    const backend = await track(t, server);
    door.policy.backends = [backendAt(backend.port)];
    const session = door.connect();
    assert.equal((await replyOf(request(session))).body, 'ok');
    await waitFor(() => backend.sockets.size === 0, { what: 'the connection to be closed', ...soon });
    assert.equal((await replyOf(request(session))).body, 'ok');
  });

  test('that ends its answer with the connection has answered', async (t) => {
    const door = await openDoor(t);
    const server = createServer((socket) => socket.on('data', () => socket.end('HTTP/1.0 200 OK\r\n\r\nall')));
    door.policy.backends = [backendAt((await track(t, server)).port)];
    assert.equal((await replyOf(request(door.connect()))).body, 'all');
  });

  test('that leaves keeps no idle connection', async (t) => {
    const door = await openDoor(t);
    const backend = await startBackend(t, (_incoming, response) => response.end('ok'));
    const known = backendAt(backend.port);
    door.policy.backends = [known];
    await replyOf(request(door.connect()));
    assert.equal(backend.sockets.size, 1);
    known.leave();
    await waitFor(() => backend.sockets.size === 0, { what: 'idle connections to be closed', ...soon });
  });
});
