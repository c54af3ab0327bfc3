import assert from 'node:assert/strict';
import { Agent } from 'node:http';
import { createServer } from 'node:http2';
import type { Http2Server, IncomingHttpHeaders, ServerHttp2Session, ServerHttp2Stream } from 'node:http2';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import * as fc from 'fast-check';
import { waitFor } from '@flynn/kit/retry';
import { closed } from '@flynn/kit/testing-sockets';
import { ask, sayRaw, setUp as setUpRouter, settled, track } from '../testing.ts';
import type { Backend, World } from '../testing.ts';

const soon = { deadlineMs: 30_000, intervalMs: 5 };

type Behaviour = (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => unknown;
type H2cWorld = World & { backend: Backend; sessions: Set<ServerHttp2Session>; streams: () => number };

async function startH2c(t: TestContext, behave: Behaviour) {
  const server: Http2Server = createServer();
  const sessions = new Set<ServerHttp2Session>();
  let streams = 0;
  server.on('session', (session) => sessions.add(session));
  server.on('stream', (stream, headers) => {
    streams += 1;
    stream.once('close', () => (streams -= 1));
    stream.on('error', () => undefined);
    behave(stream, headers);
  });
  return { backend: await track(t, server), sessions, streams: () => streams };
}

async function setUp(t: TestContext, behave: Behaviour, limits?: Parameters<typeof setUpRouter>[1]): Promise<H2cWorld> {
  const world = await setUpRouter(t, { firstByteMs: 60_000, idleMs: 60_000, dialMs: 10_000, ...limits });
  // Not that of the harness, which speaks HTTP/1 to its backends until a change of it has come in.
  world.plane.setRoute({ id: 'h2c', domain: 'app.test', path: '/', service: 'grpc', http: { protocol: 'h2c' } });
  world.plane.removeRoute('r1');
  const started = await startH2c(t, behave);
  world.plane.up('grpc', started.backend.address);
  await settled(world.router, [started.backend.address]);
  return { ...world, ...started };
}

const echo: Behaviour = (stream, headers) => {
  const length = headers['content-length'];
  stream.respond({ ':status': 200, ...(length === undefined ? {} : { 'content-length': length }) });
  stream.pipe(stream);
};

/** Status and code of an answer. */
const outcomeOf = (answer: string) => [
  /^HTTP\/1\.1 (\d+)/.exec(answer)?.[1],
  /\r\nx-flynn-error: (\S+)/.exec(answer)?.[1],
];

const get = (port: number, path: string) =>
  sayRaw(port, `GET ${path} HTTP/1.1\r\nHost: app.test\r\nConnection: close\r\n\r\n`);
const post = (lines: string, body = '') => `POST / HTTP/1.1\r\nHost: app.test\r\n${lines}\r\n${body}`;

describe('an HTTP/1 client of a backend that speaks h2c', () => {
  test('is told what it says, with its fields in the shape of either side', async (t) => {
    const { port, sessions } = await setUp(t, (stream, headers) => {
      stream.respond({ ':status': 201, 'set-cookie': ['a=1', 'b=2'], 'x-answer': 'yes' });
      stream.end(JSON.stringify(headers));
    });
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    t.after(() => agent.destroy());
    const headers = { 'X-Asked': 'Yes', connection: 'x-hop', 'x-hop': '1', te: 'trailers', cookie: 'c=1' };
    for (let i = 0; i < 3; i += 1) {
      const answer = await ask(port, { agent, path: '/a?b', headers });
      assert.equal(answer.statusCode, 201);
      assert.deepEqual(answer.headers['set-cookie'], ['a=1', 'b=2']);
      assert.equal(answer.headers['x-answer'], 'yes');
      const seen = JSON.parse(await text(answer));
      assert.deepEqual(
        [seen[':method'], seen[':path'], seen[':authority'], seen['x-asked'], seen.te, seen.cookie],
        ['GET', '/a?b', 'app.test', 'Yes', 'trailers', 'c=1'],
      );
      assert.deepEqual([seen['x-hop'], seen.connection, seen.host], [undefined, undefined, undefined]);
      assert.equal(seen['x-request-id'], answer.headers['x-request-id']);
    }
    assert.equal(sessions.size, 1);
  });

  test('gets back what it sends, byte for byte, with a length or in chunks, whichever way it is cut', async (t) => {
    const { port } = await setUp(t, echo);
    await fc.assert(
      fc.asyncProperty(
        fc.uint8Array({ maxLength: 300_000, size: 'max' }),
        fc.array(fc.integer({ min: 1, max: 70_000 }), { minLength: 1, maxLength: 8 }),
        fc.boolean(),
        async (bytes, sizes, isChunked) => {
          const body = Buffer.from(bytes);
          const pieces: Buffer[] = [];
          for (let at = 0, i = 0; at < body.length; i += 1) {
            const piece = body.subarray(at, at + (sizes[i % sizes.length] ?? 1));
            if (isChunked) pieces.push(Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from('\r\n'));
            else pieces.push(piece);
            at += piece.length;
          }
          if (isChunked) pieces.push(Buffer.from('0\r\n\r\n'));
          const frame = isChunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${body.length}`;
          const socket = connect(port, '127.0.0.1');
          const said: Buffer[] = [];
          socket.on('data', (chunk: Buffer) => said.push(chunk));
          const ended = closed(socket);
          socket.write(post(`Connection: close\r\n${frame}\r\n`));
          for (const piece of pieces) {
            socket.write(piece);
            await new Promise((resolve) => setImmediate(resolve));
          }
          await ended;
          const all = Buffer.concat(said);
          const from = all.indexOf('\r\n\r\n') + 4;
          const head = all.subarray(0, from).toString('latin1');
          assert.match(head, /^HTTP\/1.1 200 /);
          // What has no body at all loses its length of 0 in HTTP/2, and the backend repeats what it has seen.
          assert.equal(/\r\ntransfer-encoding: chunked\r\n/.test(head), isChunked || body.length === 0);
          const got = head.includes('chunked') ? unchunked(all.subarray(from)) : all.subarray(from);
          assert.ok(got.equals(body));
        },
      ),
      { numRuns: 20, examples: [false, true].map((isChunked) => [new Uint8Array(), [1], isChunked]) },
    );
  });

  test('has its trailers told, and gets those of the answer', async (t) => {
    let seen: IncomingHttpHeaders = {};
    const { port } = await setUp(t, (stream) => {
      stream.on('trailers', (trailers) => (seen = trailers));
      stream.on('end', () => {
        stream.respond({}, { waitForTrailers: true });
        stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
        stream.end('ok');
      });
      stream.resume();
    });
    const answer = await sayRaw(
      port,
      post('Connection: close\r\nTransfer-Encoding: chunked\r\n', '2\r\nhi\r\n0\r\nX-Sum: 1\r\n\r\n'),
    );
    assert.equal(seen['x-sum'], '1');
    assert.match(answer, /\r\n\r\n2\r\nok\r\n0\r\ngrpc-status: 0\r\n\r\n$/);
  });

  test('has what HTTP/2 may not say left out, before its body and after it, and harms no backend', async (t) => {
    let seen: IncomingHttpHeaders = {};
    let seenAfter: IncomingHttpHeaders | undefined;
    const { port, router } = await setUp(t, (stream, headers) => {
      seen = headers;
      stream.on('trailers', (trailers) => (seenAfter = trailers));
      stream.on('end', () => stream.respond({ ':status': 204 }, { endStream: true }));
      stream.resume();
    });
    const settings = 'HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n';
    const body = `2\r\nhi\r\n0\r\nX-Sum: 1\r\n${settings}X_Forwarded_For: 192.0.2.1\r\n\r\n`;
    const said = post(`Connection: close\r\nTransfer-Encoding: chunked\r\n${settings}`, body);
    assert.deepEqual(outcomeOf(await sayRaw(port, said)), ['204', undefined]);
    assert.equal(seen['http2-settings'], undefined);
    assert.deepEqual(Object.entries(seenAfter ?? {}), [['x-sum', '1']]);
    assert.equal(router.status().counters.dialFailures, 0);
  });

  test('that waits for 100 gets it once there is a backend, and other hints as they come', async (t) => {
    const { port } = await setUp(t, (stream) => {
      stream.additionalHeaders({ ':status': 103, link: '</a.css>' });
      stream.respond();
      stream.end('ok');
    });
    const expecting = post('Connection: close\r\nExpect: 100-continue\r\nContent-Length: 2\r\n');
    const socket = connect(port, '127.0.0.1');
    const ended = closed(socket);
    socket.write(expecting);
    let answer = '';
    socket.on('data', (chunk: Buffer) => (answer += chunk.toString('latin1')));
    await waitFor(() => answer.startsWith('HTTP/1.1 100 Continue\r\n\r\n'), { what: '100', ...soon });
    socket.write('hi');
    await ended;
    assert.match(answer, /HTTP\/1.1 103 Early Hints\r\nlink: <\/a.css>\r\n\r\nHTTP\/1.1 200 OK\r\n/);
  });

  test('without a body to come hears so, and one of HTTP/1.0 by the end of the connection', async (t) => {
    const { port } = await setUp(t, (stream, headers) => {
      if (headers[':path'] === '/204') stream.respond({ ':status': 204 }, { endStream: true });
      else if (headers[':path'] === '/empty') stream.respond({ ':status': 200 }, { endStream: true });
      else {
        stream.respond({ ':status': 200, ...(headers[':path'] === '/length' ? { 'content-length': '2' } : {}) });
        stream.end('ok');
      }
    });
    const ofKind = (path: string, method = 'GET', version = '1.1') =>
      sayRaw(port, `${method} ${path} HTTP/${version}\r\nHost: app.test\r\nConnection: close\r\n\r\n`);
    const bodyOf = (answer: string) => answer.slice(answer.indexOf('\r\n\r\n') + 4);
    const framing = (answer: string) => /\r\n(content-length|transfer-encoding): (\S+)/i.exec(answer)?.slice(1);
    assert.deepEqual([framing(await ofKind('/204')), bodyOf(await ofKind('/204'))], [undefined, '']);
    assert.deepEqual(framing(await ofKind('/empty')), ['content-length', '0']);
    assert.deepEqual(framing(await ofKind('/length')), ['content-length', '2']);
    assert.deepEqual(
      [framing(await ofKind('/x')), bodyOf(await ofKind('/x'))],
      [['transfer-encoding', 'chunked'], '2\r\nok\r\n0\r\n\r\n'],
    );
    assert.equal(bodyOf(await ofKind('/x', 'HEAD')), '');
    const old = await ofKind('/x', 'GET', '1.0');
    assert.deepEqual([framing(old), bodyOf(old)], [undefined, 'ok']);
  });

  test('that leaves takes its stream with it, in the middle of either body', async (t) => {
    const { port, router, streams } = await setUp(t, (stream, headers) => {
      if (headers[':path'] === '/down') stream.respond();
      if (headers[':path'] === '/down') stream.write('half');
    });
    const down = connect(port, '127.0.0.1');
    down.write('GET /down HTTP/1.1\r\nHost: app.test\r\n\r\n');
    const up = connect(port, '127.0.0.1');
    up.write(post('Content-Length: 10\r\n', 'half'));
    await waitFor(() => streams() === 2, { what: 'both requests', ...soon });
    down.destroy();
    up.destroy();
    await waitFor(() => streams() === 0, { what: 'no stream to be left', ...soon });
    await waitFor(() => router.status().backends.every(({ inFlight }) => inFlight === 0), {
      what: 'the count',
      ...soon,
    });
  });

  test('is told when it breaks, or is not there', async (t) => {
    const { port, plane, router, backend } = await setUp(t, (stream, headers) => {
      if (headers[':path'] === '/reset') return stream.close(2);
      stream.respond({ 'content-length': '10' });
      return stream.write('half', () => stream.close(2));
    });
    assert.deepEqual(outcomeOf(await get(port, '/reset')), ['502', 'backend-broke']);
    const half = await get(port, '/half');
    assert.match(half, /^HTTP\/1.1 200 OK\r\ncontent-length: 10\r\n/);
    assert.match(half, /\r\n\r\nhalf$/);
    await backend.close();
    assert.deepEqual(outcomeOf(await get(port, '/gone')), ['503', 'unreachable']);
    plane.down('grpc', backend.address);
    await settled(router, []);
    assert.deepEqual(outcomeOf(await get(port, '/none')), ['503', 'no-backends']);
  });

  test('is told when it is late', async (t) => {
    const { port, streams } = await setUp(t, () => undefined, { firstByteMs: 300 });
    assert.deepEqual(outcomeOf(await get(port, '/')), ['504', 'backend-late']);
    await waitFor(() => streams() === 0, { what: 'no stream to be left', ...soon });
  });

  test('that wants another protocol, or says a broken body, is refused', async (t) => {
    const { port } = await setUp(t, (stream) => stream.resume());
    const upgrade = 'GET / HTTP/1.1\r\nHost: app.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n';
    assert.deepEqual(outcomeOf((await sayRaw(port, upgrade)).replaceAll('X-Flynn', 'x-flynn')), ['505', 'http2-only']);
    const broken = post('Connection: close\r\nTransfer-Encoding: chunked\r\n', '2\r\nhix\r\n0\r\n\r\n');
    assert.equal(outcomeOf(await sayRaw(port, broken))[0], '400');
  });

  test('is answered one request after the other over a connection, also where the backend does not read them', async (t) => {
    const { port } = await setUp(t, (stream, headers) => {
      stream.respond({ ':status': 200, 'content-length': '1' });
      stream.end(headers[':path']?.slice(-1));
    });
    const body = Buffer.alloc(100_000, 'x').toString();
    const requests = [1, 2, 3].map(
      (i) => `POST /${i} HTTP/1.1\r\nHost: app.test\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
    const answer = await sayRaw(port, ...requests, 'GET /4 HTTP/1.1\r\nHost: app.test\r\nConnection: close\r\n\r\n');
    assert.deepEqual(
      answer.match(/\r\n\r\n\d/g)?.map((end) => end.trim()),
      ['1', '2', '3', '4'],
    );
  });

  test('that does not read holds up nobody but itself', async (t) => {
    const size = 30_000_000;
    let written = 0;
    const { port } = await setUp(t, (stream, headers) => {
      stream.respond();
      if (headers[':path'] !== '/much') {
        stream.end('quick');
        return;
      }
      const piece = Buffer.alloc(100_000, 'y');
      const more = (): void => {
        while (written < size) {
          written += piece.length;
          if (stream.write(piece)) continue;
          stream.once('drain', more);
          return;
        }
        stream.end();
      };
      more();
    });
    const slow = connect(port, '127.0.0.1');
    const ended = closed(slow);
    slow.pause();
    slow.write('GET /much HTTP/1.1\r\nHost: app.test\r\nConnection: close\r\n\r\n');
    await waitFor(() => written > 0, { what: 'the answer to begin', ...soon });
    assert.equal(await text(await ask(port)), 'quick');
    assert.ok(written < size, `${written} bytes were taken from the backend for a client that reads none`);
    let read = 0;
    slow.on('data', (chunk: Buffer) => (read += chunk.length)).resume();
    await ended;
    assert.ok(read > size);
  });
});

function unchunked(bytes: Buffer): Buffer {
  const parts: Buffer[] = [];
  for (let at = 0; ;) {
    const end = bytes.indexOf('\r\n', at);
    const size = Number.parseInt(bytes.subarray(at, end).toString('latin1'), 16);
    if (size === 0) return Buffer.concat(parts);
    parts.push(bytes.subarray(end + 2, end + 2 + size));
    at = end + 4 + size;
  }
}
