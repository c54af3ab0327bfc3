import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { Agent, request as httpRequest } from 'node:http';
import { connect, createServer } from 'node:net';
import type { Socket } from 'node:net';
import { buffer, text } from 'node:stream/consumers';
import { describe, test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { ask, setUp as setUpRouter, settled, startBackend, track, standstillMs } from '../testing.ts';
import type { Driver } from '../config.ts';
import type { Timeouts } from '../exchange.ts';
import type { TestContext } from 'node:test';

/** Requests and their failures. */
export function httpConformance(driver: Driver): void {
  const setUp = (t: TestContext, timeouts?: Partial<Timeouts>) => setUpRouter(t, timeouts, driver);

  describe('a request', () => {
    test('reaches the app with its headers and comes back with the answer', async (t) => {
      const { plane, router, port } = await setUp(t);
      const backend = await startBackend(t, (request, response) => {
        response.writeHead(201, 'Made', ['Set-Cookie', 'a=1', 'Set-Cookie', 'b=2']);
        response.end(JSON.stringify({ url: request.url, method: request.method, headers: request.headers }));
      });
      plane.up('web', backend.address);
      await settled(router, [backend.address]);
      const response = await ask(port, { method: 'POST', path: '/x?y=1', headers: { 'x-forwarded-for': '1.2.3.4' } });
      assert.equal(response.statusCode, 201);
      assert.equal(response.statusMessage, 'Made');
      assert.deepEqual(response.headers['set-cookie'], ['a=1', 'b=2']);
      const seen = JSON.parse(await text(response));
      assert.deepEqual([seen.method, seen.url, seen.headers.host], ['POST', '/x?y=1', 'app.test']);
      assert.equal(seen.headers['x-forwarded-for'], '1.2.3.4, 127.0.0.1');
      assert.equal(seen.headers['x-forwarded-port'], String(port));
      assert.match(seen.headers['x-request-id'], /^[0-9a-f-]{36}$/);
      assert.equal(response.headers['x-request-id'], seen.headers['x-request-id']);
      assert.ok(Math.abs(Number(seen.headers['x-request-start']) - Date.now()) < 60_000);
      assert.equal(seen.headers.via, undefined);
    });

    test('to an unknown host, or to an app without processes, is refused with the reason', async (t) => {
      const { router, port } = await setUp(t);
      const unknown = await ask(port, { headers: { host: 'nobody.test', accept: 'text/html' } });
      assert.deepEqual([unknown.statusCode, unknown.headers['x-flynn-error']], [404, 'unknown-host']);
      assert.match(await text(unknown), /<!doctype html>.*There is no app/s);
      const empty = await ask(port);
      assert.deepEqual([empty.statusCode, empty.headers['x-flynn-error']], [503, 'no-backends']);
      assert.match(await text(empty), /flynn scale/);
      assert.deepEqual(router.status().counters.refusals, { 'unknown-host': 1, 'no-backends': 1 });
    });

    test('of 30 MB passes unchanged in both directions, with and without a length', async (t) => {
      const { plane, router, port } = await setUp(t);
      const backend = await startBackend(t, (request, response) => {
        const length = request.headers['content-length'];
        if (length !== undefined) response.setHeader('content-length', length);
        request.pipe(response);
      });
      plane.up('web', backend.address);
      await settled(router, [backend.address]);
      const data = randomBytes(30 * 1024 * 1024);
      const framings: Record<string, string>[] = [
        { 'content-length': String(data.length) },
        { 'transfer-encoding': 'chunked' },
      ];
      for (const headers of framings) {
        const response = await ask(port, { method: 'PUT', headers, body: data });
        assert.equal(response.headers['content-length'], headers['content-length']);
        assert.ok(data.equals(await buffer(response)));
      }
    });

    test('gets the head and each part of a stream as the app writes them', async (t) => {
      const { plane, router, port } = await setUp(t);
      const parts: ((part: string) => void)[] = [];
      const backend = await startBackend(t, (_request, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders();
        parts.push((part) => response.write(part));
      });
      plane.up('web', backend.address);
      await settled(router, [backend.address]);
      const response = await ask(port);
      assert.equal(response.headers['content-type'], 'text/event-stream');
      for (const part of ['data: 1\n\n', 'data: 2\n\n']) {
        parts[0]?.(part);
        const [chunk] = await once(response, 'data');
        assert.equal(String(chunk), part);
      }
      response.destroy();
    });

    test('whose answer comes before its body was read leaves the connection usable', async (t) => {
      const { plane, router, port } = await setUp(t);
      const backend = await startBackend(t, (request, response) => {
        response.statusCode = request.method === 'PUT' ? 413 : 200;
        response.end(request.url);
      });
      plane.up('web', backend.address);
      await settled(router, [backend.address]);
      const socket = connect(port, '127.0.0.1');
      t.after(() => socket.destroy());
      let said = '';
      socket.on('data', (chunk: Buffer) => (said += chunk.toString()));
      const bytes = 4_000_000;
      socket.write(`PUT /first HTTP/1.1\r\nHost: app.test\r\nContent-Length: ${bytes}\r\n\r\n`);
      await waitFor(() => said.includes('/first'), { what: 'the first answer', deadlineMs: 30_000 });
      socket.write(Buffer.alloc(bytes, 'z'));
      socket.write('GET /second HTTP/1.1\r\nHost: app.test\r\n\r\n');
      await waitFor(() => said.includes('/second'), { what: 'the second answer', deadlineMs: 30_000 });
      assert.match(said, /^HTTP\/1.1 413 .*HTTP\/1.1 200 /s);
    });

    test('that waits for 100 is told to go on once there is a backend, and refused before when there is none', async (t) => {
      const { plane, router, port } = await setUp(t);
      const backend = await startBackend(t, (request, response) => {
        response.setHeader('x-expect', request.headers.expect ?? 'none');
        request.pipe(response);
      });
      const begin = async () => {
        const headers = { host: 'app.test', expect: '100-continue', 'content-length': '5' };
        const request = httpRequest({ host: '127.0.0.1', port, method: 'POST', headers, agent: new Agent() });
        request.flushHeaders();
        const event = await Promise.race([
          once(request, 'continue').then(() => 'continue'),
          once(request, 'response').then(([response]) => response),
        ]);
        return { request, event };
      };
      const refused = await begin();
      assert.equal(refused.event.statusCode, 503);
      assert.equal(refused.event.headers.connection, 'close');
      refused.request.destroy();
      plane.up('web', backend.address);
      await settled(router, [backend.address]);
      const { request, event } = await begin();
      assert.equal(event, 'continue');
      request.end('hello');
      const [response] = await once(request, 'response');
      assert.equal(await text(response), 'hello');
      assert.equal(response.headers['x-expect'], 'none');
    });

    test('of HEAD, 204 and 304 ends without a body, and the connection goes on', async (t) => {
      const { plane, router, port } = await setUp(t);
      const backend = await startBackend(t, (request, response) => {
        response.statusCode = Number(request.url?.slice(1));
        if (request.method === 'HEAD') response.setHeader('content-length', '1000');
        response.end();
      });
      plane.up('web', backend.address);
      await settled(router, [backend.address]);
      const agent = new Agent({ keepAlive: true, maxSockets: 1 });
      t.after(() => agent.destroy());
      const cases = [
        ['HEAD', 200],
        ['GET', 204],
        ['GET', 304],
        ['HEAD', 200],
      ] as const;
      for (const [method, status] of cases) {
        const response = await ask(port, { method, path: `/${status}`, agent });
        assert.equal(response.statusCode, status);
        assert.equal(await text(response), '');
        if (method === 'HEAD') assert.equal(response.headers['content-length'], '1000');
      }
      assert.equal(backend.sockets.size, 1);
    });
  });

  describe('a failure', () => {
    test('a client that leaves takes its connection to the app with it', async (t) => {
      const { plane, router, port } = await setUp(t, { firstByteMs: 60_000, idleMs: 60_000 });
      const backend = await startBackend(t, (request, response) => {
        if (request.url === '/stream') response.write('x');
      });
      plane.up('web', backend.address);
      await settled(router, [backend.address]);
      const clients = Array.from({ length: 20 }, (_, i) => {
        const socket = connect(port, '127.0.0.1');
        socket.write(`GET /${i % 2 ? 'stream' : 'silent'} HTTP/1.1\r\nHost: app.test\r\n\r\n`);
        return socket;
      });
      await waitFor(() => backend.requests === 20, { what: 'the requests', deadlineMs: 30_000 });
      for (const client of clients) client.destroy();
      await waitFor(() => backend.sockets.size === 0, { what: 'no socket to be left', deadlineMs: 30_000 });
      await waitFor(() => router.status().counters.clientsGone === 20, { what: 'the count', deadlineMs: 30_000 });
      assert.equal(router.status().backends[0]?.inFlight, 0);
    });

    test('a backend that cannot be reached is passed over, also by a request with a body', async (t) => {
      const { plane, router, port } = await setUp(t);
      const good = await startBackend(t, (request, response) => void request.pipe(response));
      const gone = await Promise.all([1, 2, 3].map(() => startBackend(t, () => {})));
      for (const each of [good, ...gone]) plane.up('web', each.address);
      await settled(
        router,
        [good, ...gone].map((each) => each.address),
      );
      await Promise.all(gone.map((each) => each.close()));
      for (let i = 0; i < 20; i += 1) {
        const response = await ask(port, { method: 'POST', body: Buffer.from('hello') });
        assert.equal(await text(response), 'hello');
      }
      assert.ok(router.status().counters.dialFailures > 0);
      await good.close();
      const response = await ask(port);
      assert.deepEqual([response.statusCode, response.headers['x-flynn-error']], [503, 'unreachable']);
    });

    test('a GET whose connection breaks before the answer is sent once more, a POST is not', async (t) => {
      const { plane, router, port } = await setUp(t);
      const bad = await startBackend(t, (request) => request.socket.destroy());
      const good = await startBackend(t, (_request, response) => response.end('good'));
      plane.up('web', bad.address);
      await settled(router, [bad.address]);
      const post = await ask(port, { method: 'POST', body: Buffer.from('x') });
      assert.deepEqual([post.statusCode, post.headers['x-flynn-error'], bad.requests], [502, 'backend-broke', 1]);
      const get = await ask(port);
      assert.deepEqual([get.statusCode, bad.requests], [502, 3]);
      plane.up('web', good.address);
      await settled(router, [bad.address, good.address]);
      for (let i = 0; i < 20; i += 1) assert.equal(await text(await ask(port)), 'good');
    });

    test('several kept connections that the app closes at once cost no request', async (t) => {
      const { plane, router, port } = await setUp(t);
      const waiting: Socket[] = [];
      let met = 0;
      // Each connection is good for one answer, and the first two are answered together: both are kept.
      const server = createServer((socket) => {
        let asked = 0;
        socket.on('data', () => {
          asked += 1;
          if (asked > 1) {
            socket.destroy();
            return;
          }
          met += 1;
          waiting.push(socket);
          if (met < 2) return;
          for (const one of waiting.splice(0)) one.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');
        });
      });
      const backend = await track(t, server);
      plane.up('web', backend.address);
      await settled(router, [backend.address]);
      const both = await Promise.all([ask(port), ask(port)]);
      for (const one of both) assert.equal(await text(one), 'ok');
      assert.equal(await text(await ask(port)), 'ok');
    });

    test('an idle connection that the app closes meanwhile costs no request', async (t) => {
      const { plane, router, port } = await setUp(t);
      // Says nothing of closing, and closes as the next request comes: the worst moment.
      const server = createServer((socket) => {
        let answered = 0;
        socket.on('data', () => {
          answered += 1;
          if (answered > 1) socket.destroy();
          else socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');
        });
      });
      const backend = await track(t, server);
      plane.up('web', backend.address);
      await settled(router, [backend.address]);
      for (let i = 0; i < 10; i += 1) assert.equal(await text(await ask(port)), 'ok');
    });

    test('an app that does not answer, or stops in the middle, is given up', async (t) => {
      const { plane, router, port } = await setUp(t, { firstByteMs: standstillMs, idleMs: standstillMs });
      const backend = await startBackend(t, (request, response) => {
        if (request.url === '/') return;
        const isBroken = request.url === '/broken';
        response.writeHead(200, { 'content-length': '10' });
        response.write('12345', () => {
          if (isBroken) request.socket.destroy();
        });
      });
      plane.up('web', backend.address);
      await settled(router, [backend.address]);
      const late = await ask(port);
      assert.deepEqual([late.statusCode, late.headers['x-flynn-error']], [504, 'backend-late']);
      for (const path of ['/half', '/broken']) {
        const response = await ask(port, { path });
        await assert.rejects(text(response), /aborted/);
      }
      await waitFor(() => backend.sockets.size === 0, { what: 'no socket to be left', deadlineMs: 30_000 });
    });

    test('an answer that is not HTTP becomes a 502', async (t) => {
      const { plane, router, port } = await setUp(t);
      const answers = [
        'nonsense\r\n\r\n',
        'HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc',
        'HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd',
      ];
      const server = createServer((socket) => {
        socket.once('data', (data) => socket.end(answers[Number(/\/(\d)/.exec(String(data))?.[1])] ?? ''));
      });
      const backend = await track(t, server);
      plane.up('web', backend.address);
      await settled(router, [backend.address]);
      for (const path of ['/0', '/1', '/2']) {
        assert.equal((await ask(port, { method: 'POST', path })).statusCode, 502, path);
      }
    });
  });
}
