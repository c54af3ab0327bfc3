import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, performServerHandshake } from 'node:http2';
import type { ClientHttp2Session, ServerHttp2Session, ServerHttp2Stream } from 'node:http2';
import { connect as connectSocket, createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { endHeaders, endStream, frame, literals, preface } from '../hostile/frames.ts';
import { Unread } from './unread.ts';

const windowBytes = 262_144;
const frameBytes = 16_384;
const soon = { deadlineMs: 30_000, intervalMs: 5 };

/** A session whose streams are not read until the test does. */
async function open(
  t: TestContext,
): Promise<{ client: ClientHttp2Session; streams: ServerHttp2Stream[]; sessions: ServerHttp2Session[]; port: number }> {
  const streams: ServerHttp2Stream[] = [];
  const sessions: ServerHttp2Session[] = [];
  const server = createServer((socket) => {
    const session = performServerHandshake(socket, { settings: { initialWindowSize: windowBytes } });
    session.on('error', () => undefined);
    sessions.push(session);
    const unread = new Unread(session, windowBytes);
    session.on('stream', (stream) => {
      stream.on('error', () => undefined);
      unread.watch(stream);
      streams.push(stream);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const client = connect(`http://127.0.0.1:${port}`);
  client.on('error', () => undefined);
  t.after(() => {
    client.destroy();
    server.close();
  });
  await once(client, 'remoteSettings');
  return { client, streams, sessions, port };
}

function upload(client: ClientHttp2Session, body: Buffer): void {
  const stream = client.request({ ':method': 'POST' });
  stream.on('error', () => undefined);
  stream.end(body);
}

/** The client has said all that it may, and would have been told if it might say more. */
async function untilStill(client: ClientHttp2Session): Promise<void> {
  for (let pings = 0; pings < 5; pings += 1) {
    await waitFor(() => client.state.remoteWindowSize === 0, { what: 'the window to be used up', ...soon });
    await new Promise((resolve) => client.ping(resolve));
  }
}

function unreadBytes(streams: ServerHttp2Stream[]): number {
  return streams.reduce((sum, stream) => sum + stream.readableLength, 0);
}

async function bytesOf(stream: ServerHttp2Stream): Promise<number> {
  let bytes = 0;
  for await (const piece of stream) bytes += (piece as Buffer).length;
  stream.respond({ ':status': 200 }, { endStream: true });
  return bytes;
}

test('all streams of a session together hold no more unread than its window, and bodies come whole once they are read', async (t) => {
  const { client, streams } = await open(t);
  for (let i = 0; i < 12; i += 1) upload(client, Buffer.alloc(200_000));
  await untilStill(client);
  await waitFor(() => unreadBytes(streams) > windowBytes - frameBytes, { what: 'what was sent to come', ...soon });
  assert.ok(unreadBytes(streams) <= windowBytes + frameBytes, String(unreadBytes(streams)));
  assert.deepEqual(
    await Promise.all(streams.map(bytesOf)),
    Array.from({ length: 12 }, () => 200_000),
  );
});

test('who reads one stream after the other is sent each whole, as often as the window is used up', async (t) => {
  const { client, streams } = await open(t);
  for (let i = 0; i < 30; i += 1) upload(client, Buffer.alloc(100_000));
  await waitFor(() => streams.length === 30, { what: 'all to have begun', ...soon });
  for (const stream of streams) assert.equal(await bytesOf(stream), 100_000);
});

for (const by of ['server', 'client'] as const) {
  test(`bodies that lie unread while the ${by} says that it leaves come whole once they are read`, async (t) => {
    const { client, streams, sessions } = await open(t);
    for (let i = 0; i < 12; i += 1) upload(client, Buffer.alloc(200_000));
    await untilStill(client);
    if (by === 'server') sessions.forEach((session) => session.close());
    else client.goaway();
    await waitFor(() => sessions.every(({ closed }) => closed), { what: 'the session to be drained', ...soon });
    const sizes = await Promise.all(streams.map(bytesOf));
    assert.deepEqual(new Set(sizes), new Set([200_000]));
    assert.equal(sizes.length, 12);
  });
}

test('streams that are given up unread leave their room to others', async (t) => {
  const { client, streams } = await open(t);
  for (let i = 0; i < 12; i += 1) upload(client, Buffer.alloc(200_000));
  await untilStill(client);
  for (const stream of streams.splice(0)) stream.close();
  upload(client, Buffer.alloc(1_000_000));
  await waitFor(() => streams.length === 1, { what: 'the next', ...soon });
  assert.equal(await bytesOf(streams[0]!), 1_000_000);
});

test('a body in pieces of a byte comes as it was, whether it was read as it came or later', async (t) => {
  const { streams, port } = await open(t);
  const socket = connectSocket({ port, host: '127.0.0.1' });
  t.after(() => socket.destroy());
  const said = Array.from({ length: 6_000 }, (_, i) => i % 251);
  const frames = said.map((byte) => frame('data', 0, 1, Buffer.of(byte)));
  const fields = literals([':method', 'POST', ':scheme', 'http', ':authority', 'app.test', ':path', '/']);
  socket.write(Buffer.concat([preface, frame('settings', 0, 0), frame('headers', endHeaders, 1, fields)]));
  socket.write(Buffer.concat(frames.slice(0, 5_000)));
  await waitFor(() => unreadBytes(streams) > 800, { what: 'the first of it', ...soon });
  const heard: Buffer[] = [];
  streams[0]!.on('data', (piece: Buffer) => heard.push(piece));
  await waitFor(() => Buffer.concat(heard).length === 5_000, { what: 'them to be read', ...soon });
  // An object for each would take a hundred times as much.
  assert.ok(heard.length < 500, String(heard.length));
  socket.write(Buffer.concat([...frames.slice(5_000), frame('data', endStream, 1)]));
  await once(streams[0]!, 'end');
  assert.deepEqual(Buffer.concat(heard), Buffer.from(said));
});
