/** Clients that misbehave: what they may do is answered, and what they leave behind is cleared away. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { waitFor } from '@flynn/kit/retry';
import { closed } from '@flynn/kit/testing-sockets';
import { drivers } from './drivers.ts';
import { leavesNothing, setUpWith } from './raw-backend.ts';
import { settled, setUp, startBackend, track } from '../testing.ts';
import { Recorder } from './recorder.ts';
import { talk } from './talk.ts';

const host = 'Host: app.test\r\n';
const quietMs = 60_000;

for (const { name: driver, pipelined } of drivers) {
  test(`${driver}: a request that trickles in byte by byte is answered as any other`, async (t) => {
    const { plane, router, port } = await setUp(t, {}, driver);
    const recorder = new Recorder();
    const backend = await track(t, recorder.server);
    plane.up('web', backend.address);
    await settled(router, [backend.address]);
    const bytes =
      `POST /slow HTTP/1.1\r\n${host}X: y\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n1\r\n!\r\n0\r\nX-Sum: 1\r\n\r\n` +
      `POST /last HTTP/1.1\r\n${host}Connection: close\r\nContent-Length: 5\r\n\r\nhello`;
    const { answer, isClosed } = await talk(port, bytes.split(''), { quietMs });
    assert.ok(isClosed);
    assert.equal(answer.match(/HTTP\/1\.1 200 /g)?.length, 2);
    const { requests, problems } = recorder.take();
    assert.deepEqual(problems, []);
    assert.deepEqual(
      requests.map(({ target, body }) => [target, body]),
      [
        ['/slow', 'hello!'],
        ['/last', 'hello'],
      ],
    );
  });

  test(`${driver}: ${pipelined} requests said in one go are answered in their order`, async (t) => {
    const { plane, router, port } = await setUp(t, {}, driver);
    const backend = await startBackend(t, (request, response) => response.end(`<${request.url?.slice(1)}>`));
    plane.up('web', backend.address);
    await settled(router, [backend.address]);
    const said = Array.from(
      { length: pipelined },
      (_, n) => `GET /${n} HTTP/1.1\r\n${host}${n === pipelined - 1 ? 'Connection: close\r\n' : ''}\r\n`,
    );
    const { answer, isClosed } = await talk(port, [said.join('')], { quietMs });
    assert.ok(isClosed);
    assert.deepEqual(answer.match(/HTTP\/1\.1 (?!200)\d+[^\r]*/g), null);
    const order = [...answer.matchAll(/<(\d+)>/g)].map(([, n]) => Number(n));
    assert.deepEqual(
      order,
      Array.from({ length: pipelined }, (_, n) => n),
    );
  });

  for (const [what, said] of [
    ['before the answer', `GET / HTTP/1.1\r\n${host}\r\n`],
    ['within a body of a known length', `POST / HTTP/1.1\r\n${host}Content-Length: 100\r\n\r\nhalf`],
    ['within a chunk', `POST / HTTP/1.1\r\n${host}Transfer-Encoding: chunked\r\n\r\n64\r\nhalf`],
    ['between chunks', `POST / HTTP/1.1\r\n${host}Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n`],
  ] as const) {
    for (const [how, leave] of [
      ['says goodbye', 'destroy'],
      ['resets', 'resetAndDestroy'],
    ] as const) {
      test(`${driver}: a client that ${how} ${what} takes its connection to the backend with it`, async (t) => {
        let heard = 0;
        const world = await setUpWith(t, () => void (heard += 1), { driver });
        const client = connect(world.port, '127.0.0.1');
        client.on('error', () => client.destroy());
        client.write(said);
        await waitFor(() => heard === 1, {
          what: 'the backend to have the request',
          deadlineMs: 60_000,
          intervalMs: 5,
        });
        const [upstream] = world.backend.sockets;
        assert.ok(upstream !== undefined);
        client[leave]();
        await closed(upstream);
        await leavesNothing(world);
      });
    }
  }

  test(`${driver}: a client that never reads holds its backend back, and lets it go when it leaves`, async (t) => {
    let sent = 0;
    const world = await setUpWith(
      t,
      (socket) => {
        const piece = Buffer.alloc(1_048_576, 'x');
        socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${500 * piece.length}\r\n\r\n`);
        const more = () => {
          while (!socket.destroyed && sent < 500 * piece.length) {
            sent += piece.length;
            if (!socket.write(piece)) return;
          }
        };
        socket.on('drain', more);
        more();
      },
      { driver },
    );
    const client = connect(world.port, '127.0.0.1');
    client.on('error', () => client.destroy());
    client.pause();
    client.write(`GET / HTTP/1.1\r\n${host}\r\n`);
    let last = -1;
    await waitFor(
      () => {
        const isStill = sent > 0 && sent === last;
        last = sent;
        return isStill;
      },
      { what: 'the backend to be held back', deadlineMs: 30_000, intervalMs: 1_500 },
    );
    assert.ok(sent < 100e6, `the router took ${sent} bytes that nobody read`);
    client.destroy();
    await leavesNothing(world);
  });

  test(`${driver}: connections that say nothing, or half a head, are held by nobody when they leave`, async (t) => {
    const world = await setUpWith(t, (socket) => void socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'), {
      driver,
    });
    const clients = Array.from({ length: 200 }, (_, n) => {
      const client = connect(world.port, '127.0.0.1');
      client.on('error', () => client.destroy());
      if (n % 2 === 0) client.write(`GET / HTTP/1.1\r\nHo`);
      return client;
    });
    await Promise.all(clients.map((client) => once(client, 'connect')));
    await turn();
    for (const client of clients) client.destroy();
    const { answer } = await talk(world.port, [`GET / HTTP/1.1\r\n${host}Connection: close\r\n\r\n`], { quietMs });
    assert.match(answer, /^HTTP\/1\.1 200 /);
    assert.equal(world.backend.requests, 1);
    await leavesNothing(world);
  });

  test(`${driver}: an upgrade that the backend refuses is an answer, and opens no way past the router`, async (t) => {
    const { plane, router, port } = await setUp(t, {}, driver);
    const recorder = new Recorder();
    const backend = await track(t, recorder.server);
    plane.up('web', backend.address);
    await settled(router, [backend.address]);
    const upgrade = `GET /chat HTTP/1.1\r\n${host}Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 777\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n`;
    const { answer } = await talk(port, [upgrade, `GET /smuggled HTTP/1.1\r\n${host}Connection: close\r\n\r\n`], {
      quietMs,
    });
    assert.match(answer, /^HTTP\/1\.1 200 /);
    const { requests, problems } = recorder.take();
    assert.deepEqual(problems, []);
    assert.equal(requests[0]?.target, '/chat');
    // What came behind it is nothing, or a request like any other.
    const marks = requests.map(({ fields }) => fields.filter(([name]) => name === 'x-request-id').length);
    assert.ok(marks.every((count) => count === 1));
  });
}
