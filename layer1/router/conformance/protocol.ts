import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import type { Socket } from 'node:net';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import type { Driver } from '../config.ts';
import { startFront } from '../front-testing.ts';
import type { Script } from '../front-testing.ts';
import { sayRaw, startBackend, track } from '../testing.ts';

const host = 'Host: app.test\r\n';
const last = `${host}Connection: close\r\n`;

/** A backend that says these bytes for every request, and perhaps closes. */
function say(t: TestContext, text: string, how: { ends?: boolean; resets?: boolean } = {}) {
  const server = createServer((socket) => {
    socket.on('data', () => {
      if (how.ends === true) socket.end(text);
      else
        socket.write(text, () => {
          if (how.resets === true) socket.resetAndDestroy();
        });
    });
  });
  return track(t, server);
}

/** What clients and backends of the protocol's many forms get and say. */
export function protocolConformance(driver: Driver): void {
  const start = (t: TestContext, addresses: string[], script?: Script) => startFront(t, driver, addresses, script);

  test('clients of HTTP/1.0 get what they understand, and keep the connection only if they ask', async (t) => {
    const backend = await startBackend(t, (request, response) => {
      response.write('a');
      response.end(request.url);
    });
    const { port } = await start(t, [backend.address]);
    const plain = await sayRaw(port, `GET /x HTTP/1.0\r\n${host}\r\n`);
    assert.match(plain, /^HTTP\/1\.1 200 OK\r\n[^]*\r\n\r\na\/x$/);
    assert.doesNotMatch(plain, /transfer-encoding/i);
    const length = await startBackend(t, (request, response) => response.end(request.url));
    const two = await start(t, [length.address]);
    const kept = `GET /1 HTTP/1.0\r\n${host}Connection: keep-alive\r\n\r\n`;
    assert.match(
      await sayRaw(two.port, kept, `GET /2 HTTP/1.0\r\n${host}\r\n`),
      /connection: keep-alive\r\n[^]*\/1HTTP\/1\.1 200[^]*\/2$/i,
    );
  });

  test('an answer that ends with its connection reaches the client whole, and its connection goes on', async (t) => {
    const backend = await say(t, 'HTTP/1.1 200 OK\r\n\r\nall of it', { ends: true });
    const { port, endings } = await start(t, [backend.address]);
    const said = await sayRaw(port, `GET /1 HTTP/1.1\r\n${host}\r\n`, `GET /2 HTTP/1.1\r\n${last}\r\n`);
    assert.equal(said.match(/\r\n9\r\nall of it\r\n0\r\n\r\n/g)?.length, 2, said);
    assert.deepEqual(
      endings.map(({ status, bytesOut, how }) => [status, bytesOut, how]),
      [
        [200, 9, 'answered'],
        [200, 9, 'answered'],
      ],
    );
  });

  test('an answer that breaks off is never made to look whole', async (t) => {
    const texts = [
      'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf',
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n',
      'HTTP/1.1 200 OK\r\n\r\nhalf',
    ];
    for (const text of texts) {
      const backend = await say(t, text, { resets: true });
      const { port, endings, told } = await start(t, [backend.address]);
      const said = await sayRaw(port, `GET / HTTP/1.1\r\n${host}\r\n`);
      assert.ok(!said.endsWith('0\r\n\r\n') && !said.endsWith('half\r\n0'), said);
      await waitFor(() => endings.length === 1, { what: 'the end', deadlineMs: 30_000 });
      assert.equal(told.filter((each) => each === 'release').length, told.filter((each) => each === 'pick').length);
    }
  });

  test('preliminary answers go on before the final one', async (t) => {
    const hints = 'HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n';
    const backend = await say(t, `${hints}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok`);
    const { port } = await start(t, [backend.address]);
    const said = await sayRaw(port, `GET / HTTP/1.1\r\n${last}\r\n`);
    assert.match(said, /^HTTP\/1\.1 103 [^]*link: <\/a\.css>; rel=preload\r\n[^]*HTTP\/1\.1 200 OK[^]*ok$/i);
    const old = await sayRaw(port, `GET / HTTP/1.0\r\n${host}\r\n`);
    assert.match(old, driver === 'fast' ? /^HTTP\/1\.1 200 / : /HTTP\/1\.1 200 /);
  });

  test('an answer that goes on after its end costs the backend its connection, and nobody an answer', async (t) => {
    const evil = 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil';
    const backend = await say(t, `HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok${evil}`);
    const { port } = await start(t, [backend.address]);
    for (let i = 0; i < 3; i += 1) {
      const said = await sayRaw(port, `GET /1 HTTP/1.1\r\n${host}\r\nGET /2 HTTP/1.1\r\n${last}\r\n`);
      assert.doesNotMatch(said, /evil/);
    }
  });

  test('what is refused says why, and ends the connection', async (t) => {
    const backend = await startBackend(t, (_request, response) => response.end('reached'));
    const { port } = await start(t, [backend.address]);
    const refused: [RegExp, string][] = [
      [/^HTTP\/1\.1 400 /, `GET / HTTP/1.1\r\n${host}Content-Length: 1, 1\r\n\r\nGET / HTTP/1.1\r\n${host}\r\n`],
      [/^HTTP\/1\.1 431 /, `GET / HTTP/1.1\r\n${host}X: ${'x'.repeat(70_000)}\r\n\r\n`],
      [/^HTTP\/1\.1 501 /, `GET / HTTP/1.1\r\n${host}Transfer-Encoding: gzip\r\n\r\n`],
    ];
    for (const [status, text] of refused) {
      const said = await sayRaw(port, text);
      assert.match(said, driver === 'fast' ? status : /^HTTP\/1\.1 (?:4|5)/);
      assert.equal(said.match(/HTTP\/1\.1/g)?.length, 1);
      assert.doesNotMatch(said, /reached/);
    }
  });

  test('a broken chunk of a body ends the request at the backend too', async (t) => {
    const seen: string[] = [];
    const sockets: Socket[] = [];
    const server = createServer((socket) => {
      sockets.push(socket);
      socket.on('data', (data) => seen.push(String(data)));
    });
    const backend = await track(t, server);
    const { port, endings } = await start(t, [backend.address]);
    const socket = connect(port, '127.0.0.1');
    socket.on('error', () => socket.destroy());
    socket.write(`POST / HTTP/1.1\r\n${host}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n`);
    await waitFor(() => seen.join('').includes('hello'), { what: 'the first chunk', deadlineMs: 30_000 });
    socket.write('zz\r\nGET /smuggled HTTP/1.1\r\nHost: app.test\r\n\r\n');
    await once(socket.resume(), 'close');
    await waitFor(() => backend.sockets.size === 0, { what: 'the backend to be let go', deadlineMs: 30_000 });
    assert.doesNotMatch(seen.join(''), /smuggled|0\r\n\r\n$/);
    await waitFor(() => endings.length === 1, { what: 'the end', deadlineMs: 30_000 });
  });
}
