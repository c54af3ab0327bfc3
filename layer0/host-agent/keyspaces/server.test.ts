import assert from 'node:assert/strict';
import { type Socket, connect } from 'node:net';
import { once } from 'node:events';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { FlynnError } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import type { DoorAnswer, DoorRequest } from './door.ts';
import { Refusal } from './refusal.ts';
import { serveDoor } from './server.ts';

const said = (body: string | Readable): DoorAnswer => ({ status: 200, body, [Symbol.dispose]: () => undefined });

async function open(answer: (request: DoorRequest) => Promise<DoorAnswer>) {
  const server = await serveDoor({ door: { answer }, host: '127.0.0.1', port: 0, log: silentLogger() });
  const post = (body: string | Buffer<ArrayBuffer>, path = '/v3/kv/range') =>
    fetch(`http://127.0.0.1:${server.port}${path}`, { method: 'POST', body, signal: AbortSignal.timeout(60_000) });
  return { server, post, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
}

test('what was asked gets to the door, and its answer back', async () => {
  await using it = await open(async ({ path, method, address, url, authorization = 'none', readBody }) =>
    said(JSON.stringify({ path, method, address, url, authorization, body: await readBody() })),
  );
  const answer = await it.post('{"a":1}', '/v3/kv/range?x=1');
  assert.equal(answer.headers.get('content-type'), 'application/json');
  assert.deepEqual(await answer.json(), {
    path: '/v3/kv/range',
    method: 'POST',
    address: '127.0.0.1',
    url: `http://127.0.0.1:${it.server.port}`,
    authorization: 'none',
    body: { a: 1 },
  });
});

const refusals: readonly [unknown, number, object][] = [
  [new Refusal('token', 'why'), 401, { error: 'etcdserver: invalid auth token', code: 16, message: 'why' }],
  [new Refusal('outside', 'why'), 403, { error: 'etcdserver: permission denied', code: 7, message: 'why' }],
  [new Refusal('lease', 'why'), 404, { error: 'etcdserver: requested lease not found', code: 5, message: 'why' }],
  [new Refusal('full', 'why'), 429, { error: 'why', code: 8, message: 'why' }],
  [new FlynnError('unavailable', 'why'), 503, { error: 'etcdserver: request timed out', code: 14, message: 'why' }],
  [new TypeError('why'), 500, { error: 'why', code: 13, message: 'why' }],
];
for (const [error, status, body] of refusals) {
  test(`a refusal has etcd's form: ${status}`, async () => {
    await using it = await open(() => Promise.reject(error));
    const answer = await it.post('{}');
    assert.deepEqual([answer.status, await answer.json()], [status, body]);
  });
}

test('what is no JSON is told so, what is too large is not read to its end', async () => {
  await using it = await open(async ({ readBody }) => said(JSON.stringify(await readBody())));
  assert.match(await (await it.post('{')).text(), /the request is not JSON/);
  const larger = await it.post(Buffer.alloc(1024 ** 2 + 1, ' '));
  assert.deepEqual([larger.status, larger.headers.get('connection')], [400, 'close']);
  assert.match(await larger.text(), /1048576 bytes at most/);
  assert.equal((await it.post(Buffer.alloc(1024 ** 2, '1'))).status, 200);
});

test('a stream comes as it is made, and ends for the door when the client leaves', async () => {
  const watch = new Readable({ read: () => undefined });
  const disposed = Promise.withResolvers<void>();
  const asked = Promise.withResolvers<DoorRequest>();
  await using it = await open(async (request) => {
    asked.resolve(request);
    return { status: 200, body: watch, [Symbol.dispose]: () => disposed.resolve() };
  });
  watch.push('{"result":1}\n');
  const socket = connect(it.server.port, '127.0.0.1');
  socket.write('POST /v3/watch HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}');
  await untilRead(socket, '{"result":1}\n');
  watch.push('{"result":2}\n');
  await untilRead(socket, '{"result":2}\n');
  socket.destroy();
  await disposed.promise;
  assert.equal((await asked.promise).signal.aborted, true);
  assert.equal(watch.destroyed, true);
});

async function untilRead(socket: Socket, expected: string): Promise<void> {
  let read = '';
  while (!read.includes(expected)) {
    const [chunk] = await once(socket, 'data', { signal: AbortSignal.timeout(60_000) });
    read += String(chunk);
  }
}

test('one address has so many connections and no more', async () => {
  await using it = await open(async () => said('{}'));
  const sockets: Socket[] = [];
  for (let count = 0; count < 65; count += 1) {
    const socket = connect(it.server.port, '127.0.0.1');
    sockets.push(socket.on('error', () => undefined));
    await once(socket, 'connect', { signal: AbortSignal.timeout(60_000) });
  }
  const last = sockets.at(-1);
  assert.ok(last);
  if (!last.closed) await once(last, 'close', { signal: AbortSignal.timeout(60_000) });
  const [first] = sockets;
  first?.write('POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}');
  if (first !== undefined) await untilRead(first, '200 OK');
  for (const socket of sockets) socket.destroy();
});

test('closed, it cuts what is open', async () => {
  const watch = new Readable({ read: () => undefined });
  const it = await open(async () => said(watch));
  watch.push('{}');
  const answer = await it.post('{}');
  await it.server[Symbol.asyncDispose]();
  await assert.rejects(answer.text());
});
