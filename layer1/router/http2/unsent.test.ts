import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:http2';
import type { ClientHttp2Session, ClientHttp2Stream } from 'node:http2';
import { buffer } from 'node:stream/consumers';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { startBackend } from '../testing.ts';
import { backendAt, openDoor, request } from './testing.ts';
import type { Door } from './testing.ts';

const soon = { deadlineMs: 60_000, intervalMs: 10 };
const streams = 100;
/** What is read of a backend at once. */
const pieceBytes = 65_536;
const muchBytes = 1_048_576;

/** A client that takes heads and no byte of a body. */
async function open(t: TestContext, door: Door): Promise<ClientHttp2Session> {
  const session = connect(door.url, { settings: { initialWindowSize: 0 } });
  session.on('error', () => undefined);
  t.after(() => session.destroy());
  await once(session, 'remoteSettings');
  return session;
}

async function answered(session: ClientHttp2Session, path = '/'): Promise<ClientHttp2Stream[]> {
  const asked = Array.from({ length: streams }, () => request(session, { ':path': path }));
  await Promise.all(asked.map((stream) => once(stream, 'response')));
  // Whatever else would come has had the time to.
  for (let pings = 0; pings < 20; pings += 1) await new Promise((resolve) => session.ping(resolve));
  return asked;
}

test('of answers that a client does not take little is read beyond what a session may have waiting', async (t) => {
  const door = await openDoor(t);
  const body = Buffer.alloc(2_000_000);
  const backend = await startBackend(t, (_incoming, response) => response.end(body));
  door.policy.backends = [backendAt(backend.port)];
  const session = await open(t, door);
  await answered(session);
  session.destroy();
  await waitFor(() => door.policy.endings.length === streams, { what: 'all to be over', ...soon });
  const held = door.policy.endings.reduce((sum, { bytesOut }) => sum + bytesOut, 0);
  assert.ok(held <= muchBytes + (streams + 2) * pieceBytes, String(held));
});

test('answers that waited for long come as they are, in pieces of any size, and so do those asked for meanwhile', async (t) => {
  const door = await openDoor(t);
  const bodies = [20_000, 60_000, 300_000].map((size) => randomBytes(size));
  let asked = 0;
  const backend = await startBackend(t, (incoming, response) => {
    const body = bodies[asked % bodies.length] ?? Buffer.alloc(0);
    response.setHeader('x-index', asked % bodies.length);
    asked += 1;
    if (incoming.url === '/length') response.setHeader('content-length', body.length);
    for (let at = 0; at < body.length; at += 9_000) response.write(body.subarray(at, at + 9_000));
    response.end();
  });
  door.policy.backends = [backendAt(backend.port)];
  for (const path of ['/length', '/chunks']) {
    const session = await open(t, door);
    const indexes = new Map<ClientHttp2Stream, number>();
    const asking = Array.from({ length: streams }, () => request(session, { ':path': path }));
    await Promise.all(
      asking.map(async (stream) => {
        const [headers] = await once(stream, 'response');
        indexes.set(stream, Number(headers['x-index']));
      }),
    );
    const other = door.connect();
    const prompt = request(other, { ':path': path });
    const [headers] = await once(prompt, 'response');
    assert.ok((await buffer(prompt)).equals(bodies[Number(headers['x-index'])] ?? Buffer.alloc(0)));
    session.settings({ initialWindowSize: 100_000 });
    const got = await Promise.all(asking.map(async (stream) => ({ stream, body: await buffer(stream) })));
    for (const { stream, body } of got) assert.ok(body.equals(bodies[indexes.get(stream) ?? 0] ?? Buffer.alloc(0)));
    assert.equal(door.policy.inUse, 0);
  }
});
