import assert from 'node:assert/strict';
import { connect, createServer } from 'node:net';
import { test } from 'node:test';
import { startFront } from '../front-testing.ts';
import { startBackend, track } from '../testing.ts';

const bodyBytes = 20_000_000;

/** What is said to a client that goes on with its body whatever it is told. */
async function upload(port: number): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  const heard: Buffer[] = [];
  socket.on('data', (bytes: Buffer) => heard.push(bytes));
  socket.on('error', () => undefined);
  socket.write(`POST / HTTP/1.1\r\nHost: app.test\r\nConnection: close\r\nContent-Length: ${bodyBytes}\r\n\r\n`);
  const piece = Buffer.alloc(50_000);
  let left = bodyBytes;
  const say = () => {
    for (; left > 0 && !socket.destroyed; left -= piece.length) if (!socket.write(piece)) break;
  };
  socket.on('drain', say);
  say();
  await new Promise((resolve) => socket.once('close', resolve));
  return Buffer.concat(heard).toString('latin1');
}

test('an app that refuses an upload and closes is heard, and not blamed', async (t) => {
  const backend = await startBackend(t, (_request, response) => {
    response.writeHead(413, { connection: 'close' });
    response.end('too much');
  });
  const { port, told } = await startFront(t, 'fast', [backend.address]);
  for (let i = 0; i < 10; i += 1) assert.match(await upload(port), /^HTTP\/1.1 413 .*too much/s);
  assert.ok(!told.includes('broke'), told.join());
});

test('one that resets an upload without an answer breaks it, and is told at once', async (t) => {
  const server = createServer((socket) => socket.once('data', () => socket.resetAndDestroy()));
  const backend = await track(t, server);
  const { port, told } = await startFront(t, 'fast', [backend.address]);
  for (let i = 0; i < 10; i += 1) assert.match(await upload(port), /^HTTP\/1.1 599 .*backend-broke$/s);
  assert.equal(told.filter((what) => what === 'broke').length, 10);
});

test('an answer that only the end of its connection ends is not whole when that is reset amid the upload', async (t) => {
  const server = createServer((socket) => {
    socket.once('data', () => socket.write('HTTP/1.1 200 OK\r\n\r\nhalf', () => socket.resetAndDestroy()));
  });
  const backend = await track(t, server);
  const { port } = await startFront(t, 'fast', [backend.address]);
  for (let i = 0; i < 10; i += 1) assert.doesNotMatch(await upload(port), /^HTTP\/1.1 200 .*\r\n0\r\n\r\n$/s);
});
