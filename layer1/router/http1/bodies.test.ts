import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import type { Socket } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { waitFor } from '@flynn/kit/retry';
import { startFront } from '../front-testing.ts';
import { ask, startBackend, track } from '../testing.ts';
import { ChunkedBody } from './chunked.ts';
import { HeadReader } from './head-reader.ts';
import { Http1ResponseHead, problemOfPartialResponse, readResponseHead } from './response-head.ts';

/** Bytes of which each place is told from its neighbours. */
function bytesOf(length: number): Buffer {
  const bytes = Buffer.allocUnsafe(length);
  for (let i = 0; i < length; i += 1) bytes[i] = (i * 31 + (i >> 8)) & 255;
  return bytes;
}

function framed(body: Buffer, sizes: number[], isChunked: boolean): Buffer {
  const head = 'POST /x HTTP/1.1\r\nHost: app.test\r\n';
  if (!isChunked) return Buffer.concat([Buffer.from(`${head}Content-Length: ${body.length}\r\n\r\n`), body]);
  const parts: Buffer[] = [Buffer.from(`${head}Transfer-Encoding: chunked\r\n\r\n`)];
  for (let at = 0, i = 0; at < body.length; i += 1) {
    const size = Math.min(body.length - at, sizes[i % Math.max(1, sizes.length)] ?? body.length);
    parts.push(Buffer.from(`${size.toString(16)}\r\n`), body.subarray(at, at + size), Buffer.from('\r\n'));
    at += size;
  }
  return Buffer.concat([...parts, Buffer.from('0\r\n\r\n')]);
}

/** The body of the answer at the begin of these bytes; undefined if it is not whole. */
function bodyOf(said: Buffer): Buffer | undefined {
  const reader = new HeadReader(readResponseHead, problemOfPartialResponse);
  const head = reader.read(said, 0, said.length);
  if (!(head instanceof Http1ResponseHead)) return undefined;
  assert.equal(head.status, 200);
  if (head.framing !== 'chunked') {
    assert.ok(said.length <= reader.end + head.length);
    return said.length === reader.end + head.length ? said.subarray(reader.end) : undefined;
  }
  const chunks = new ChunkedBody();
  const parts: Buffer[] = [];
  for (let at = reader.end; at < said.length && !chunks.isDone;) {
    at = chunks.step(said, at, said.length);
    assert.ok(!chunks.isBad);
    parts.push(said.subarray(chunks.dataFrom, chunks.dataTo));
  }
  return chunks.isDone ? Buffer.concat(parts) : undefined;
}

test('bodies of every length and frame go both ways at once, byte for byte, in whichever pieces they come', async (t) => {
  const echo = await startBackend(t, (request, response) => {
    const length = request.headers['content-length'];
    if (length !== undefined) response.setHeader('content-length', length);
    request.pipe(response);
  });
  const { port, told } = await startFront(t, 'fast', [echo.address]);
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  t.after(() => socket.destroy());
  let said = Buffer.alloc(0);
  socket.on('data', (chunk) => (said = Buffer.concat([said, chunk])));
  await fc.assert(
    fc.asyncProperty(
      fc.oneof(fc.nat({ max: 40 }), fc.nat({ max: 300_000 })),
      fc.array(fc.integer({ min: 1, max: 70_000 }), { maxLength: 5 }),
      fc.boolean(),
      fc.array(fc.nat({ max: 300_100 }), { maxLength: 8 }),
      async (length, sizes, isChunked, cuts) => {
        const body = bytesOf(length);
        const request = framed(body, sizes, isChunked);
        said = Buffer.alloc(0);
        let from = 0;
        for (const to of [...cuts.filter((cut) => cut < request.length), request.length].toSorted((a, b) => a - b)) {
          if (to > from && !socket.write(request.subarray(from, to))) await once(socket, 'drain');
          from = to;
          // Lets the piece arrive alone.
          await new Promise((resolve) => setImmediate(resolve));
        }
        const got = await waitFor(() => bodyOf(said), { what: 'the answer', deadlineMs: 60_000, intervalMs: 2 });
        assert.ok(body.equals(got));
      },
    ),
    { numRuns: 60 },
  );
  // All over one connection to the backend, given back each time.
  assert.equal(told.filter((each) => each === 'pick').length, told.filter((each) => each === 'release').length);
});

test('fields behind a body go on both ways, but for those that must not be there', async (t) => {
  let seen = '';
  const answer =
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 7\r\nSet-Cookie: a=1\r\n\r\n';
  const server = createServer((socket) => {
    socket.on('data', (data) => {
      seen += String(data);
      if (seen.endsWith('\r\n\r\n') && seen.includes('\r\n0\r\n')) socket.write(answer);
    });
  });
  const backend = await track(t, server);
  const { port } = await startFront(t, 'fast', [backend.address]);
  const socket = connect(port, '127.0.0.1');
  t.after(() => socket.destroy());
  let said = '';
  socket.on('data', (data) => (said += String(data)));
  socket.write('POST / HTTP/1.1\r\nHost: app.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n');
  socket.write('X-Mine: 1\r\nHost: other.test\r\nX-Forwarded-For: 1.1.1.1\r\nContent-Length: 9\r\n\r\n');
  await waitFor(() => said.includes('X-Sum: 7'), { what: 'the answer', deadlineMs: 30_000 });
  assert.ok(seen.endsWith('3\r\nabc\r\n0\r\nX-Mine: 1\r\n\r\n'), seen);
  assert.ok(said.endsWith('2\r\nok\r\n0\r\nX-Sum: 7\r\n\r\n'), said);
});

test('an answer that waits for a slow client is not written over by the answers of others', async (t) => {
  const bodies = Array.from({ length: 8 }, (_, i) => bytesOf(3_000_000 + i * 1_000).fill(i, 0, 100));
  const backend = await startBackend(t, (request, response) => response.end(bodies[Number(request.url?.slice(1))]));
  const { port, told } = await startFront(t, 'fast', [backend.address]);
  const slow = bodies.map((_, i) => {
    const socket = connect(port, '127.0.0.1');
    t.after(() => socket.destroy());
    socket.pause();
    socket.write(`GET /${i} HTTP/1.1\r\nHost: app.test\r\n\r\n`);
    return socket;
  });
  await waitFor(() => told.length >= bodies.length, { what: 'all to be asked', deadlineMs: 30_000 });
  // Each of these gets a whole answer past those that wait.
  for (const [i, body] of bodies.entries()) {
    const response = await ask(port, { path: `/${i}` });
    assert.ok(body.equals(await buffer(response)));
  }
  for (const [i, socket] of slow.entries()) {
    const parts: Buffer[] = [];
    socket.on('data', (part: Buffer) => parts.push(part));
    socket.resume();
    const got = await waitFor(() => bodyOf(Buffer.concat(parts)), { what: 'the answer', deadlineMs: 60_000 });
    assert.ok(bodies[i]?.equals(got), `answer ${i}`);
  }
});

test('a body that its backend does not read for a while arrives as it was sent, past those of others', async (t) => {
  const body = bytesOf(16_000_000);
  const others = Buffer.alloc(1_000_000);
  const got: Buffer[] = [];
  let asked: Socket | undefined;
  const server = createServer((socket) => {
    if (asked === undefined) {
      asked = socket.pause();
      socket.on('data', (part) => got.push(part));
      return;
    }
    let bytes = 0;
    socket.on('data', (part) => {
      bytes += part.length;
      if (bytes > others.length) socket.end('HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n');
    });
  });
  const backend = await track(t, server);
  const { port } = await startFront(t, 'fast', [backend.address], { limits: { idleMs: 60_000, firstByteMs: 60_000 } });
  const client = connect(port, '127.0.0.1');
  t.after(() => client.destroy());
  client.write(`POST / HTTP/1.1\r\nHost: app.test\r\nContent-Length: ${body.length}\r\n\r\n`);
  let written = 0;
  const writeNext = () => {
    const piece = body.subarray(written, written + 64_000);
    if (piece.length > 0) client.write(piece, writeNext);
    written += piece.length;
  };
  writeNext();
  let before = 0;
  const isStuck = () => {
    const isStill = asked !== undefined && written === before;
    before = written;
    return isStill;
  };
  await waitFor(isStuck, { what: 'nobody to take more', deadlineMs: 30_000, intervalMs: 50 });
  for (let i = 0; i < 4; i += 1) {
    const other = connect(port, '127.0.0.1');
    other.write(`POST / HTTP/1.1\r\nHost: app.test\r\nContent-Length: ${others.length}\r\nConnection: close\r\n\r\n`);
    other.write(others);
    assert.match(String(await buffer(other)), /^HTTP\/1\.1 200 /);
  }
  asked?.resume();
  const isThere = () => got.reduce((sum, part) => sum + part.length, 0) >= body.length;
  await waitFor(isThere, { what: 'the whole body', deadlineMs: 30_000 });
  assert.ok(Buffer.concat(got).subarray(-body.length).equals(body));
});
