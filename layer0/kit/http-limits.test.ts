import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { test } from 'node:test';
import { z } from 'zod';
import { FlynnError } from './errors.ts';
import { type ServerOptions, handle, startServer } from './http-server.ts';
import { silentLogger } from './log.ts';
import { waitFor } from './retry.ts';
import { defineRoute } from './routes.ts';
import { closed } from './testing-sockets.ts';

const createRoute = defineRoute({
  method: 'POST',
  path: '/apps',
  query: z.object({ dry: z.string().optional() }),
  body: z.object({
    name: z.string(),
    meta: z.record(z.string(), z.string()).default({}),
    port: z.object({ port: z.int() }).optional(),
  }),
  response: z.object({ name: z.string() }),
  summary: 'make an app',
});

async function start(options: Partial<ServerOptions> = {}) {
  const handlers = [handle(createRoute, async ({ body }) => ({ name: body.name }))];
  return startServer({
    name: 'test',
    host: '127.0.0.1',
    port: 0,
    log: silentLogger(),
    handlers,
    isStrict: true,
    ...options,
  });
}

async function post(
  url: string,
  body: string | ReadableStream,
): Promise<{ status: number; code: string; message: string }> {
  const init: RequestInit & { duplex?: 'half' } = { method: 'POST', body };
  if (typeof body !== 'string') init.duplex = 'half';
  const answer = await fetch(url, init);
  const { code = '', message = '' } = (await answer.json()) as { code?: string; message?: string };
  return { status: answer.status, code, message };
}

test('a body too large is refused, told in advance or not, and the server goes on', async () => {
  await using server = await start();
  const large = JSON.stringify({ name: 'x'.repeat(10 * 1024 * 1024) });
  const chunks = async function* () {
    for (let at = 0; at < large.length; at += 65_536) yield Buffer.from(large.slice(at, at + 65_536));
  };
  for (const body of [large, ReadableStream.from(chunks())]) {
    const { status, code, message } = await post(`${server.url}/apps`, body);
    assert.deepEqual([status, code], [400, 'invalid']);
    assert.match(message, /larger than 4 MB/);
  }
  assert.equal((await post(`${server.url}/apps`, '{"name":"a"}')).status, 200);
});

test('what is not JSON, or not what is asked for, is refused with what is wrong', async () => {
  await using server = await start();
  const cases: [string, RegExp][] = [
    ['{', /is not JSON/],
    ['', /is not valid/],
    ['null', /is not valid/],
    ['[]', /is not valid/],
    ['{"name":1}', /expected string/],
    ['{"nmae":"a"}', /is not valid/],
    ['{"name":"a","nmae":"a"}', /fields it does not know: nmae/],
    ['{"name":"a","port":{"port":1,"prot":2}}', /fields it does not know: port\.prot/],
    [`${'['.repeat(100_000)}${']'.repeat(100_000)}`, /is not valid|is not JSON/],
    ['{"name":"a","__proto__":{"admin":true}}', /fields it does not know: __proto__/],
  ];
  for (const [body, expected] of cases) {
    const { status, code, message } = await post(`${server.url}/apps`, body);
    assert.deepEqual([status, code], [400, 'invalid'], body.slice(0, 50));
    assert.match(message, expected);
  }
  const query = await post(`${server.url}/apps?drry=1`, '{"name":"a"}');
  assert.match(query.message, /the query of POST \/apps has fields it does not know: drry/);
  assert.equal((await post(`${server.url}/apps`, '{"name":"a","meta":{"any":"key"}}')).status, 200);
});

test('who sends a body too slowly is told so, and who never ends their head is cut off', async () => {
  await using server = await start({ bodyDeadlineMs: 200 });
  const slow = connect(server.port, '127.0.0.1');
  slow.write('POST /apps HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{"name"');
  let answer = '';
  for await (const chunk of slow) {
    answer += String(chunk);
    if (answer.includes('}')) break;
  }
  assert.match(answer, /^HTTP\/1\.1 504 .*\r\n/);
  assert.match(answer, /did not arrive within 0\.2 s/);
  await using hurried = await start({ headTimeoutMs: 200 });
  const silent = connect(hurried.port, '127.0.0.1');
  silent.write('GET /ping HTTP/1.1\r\nx-a: ');
  const dripping = setInterval(() => silent.write('b'), 20);
  silent.resume();
  silent.on('error', () => {});
  await closed(silent);
  clearInterval(dripping);
  assert.equal((await fetch(`${server.url}/ping`)).status, 200);
  // A head that comes late, on a machine that stands still, is cut off like any other.
  const isThere = async () => (await fetch(`${hurried.url}/ping`)).status === 200;
  await waitFor(isThere, { what: 'the server to go on', deadlineMs: 30_000 });
});

test('the gate is asked before the body is read, its caller reaches the handler, and its params count', async () => {
  const route = defineRoute({
    method: 'POST',
    path: '/apps/:app',
    body: z.object({}),
    response: z.unknown(),
    summary: 'x',
  });
  const asked: string[] = [];
  await using server = await startServer({
    name: 'test',
    host: '127.0.0.1',
    port: 0,
    log: silentLogger(),
    handlers: [handle(route, async ({ params, caller }) => ({ app: params.app, caller: caller?.name }))],
    gate: async ({ params, headers }) => {
      asked.push(params['app'] ?? '');
      if (headers.authorization === undefined) {
        throw new FlynnError('exhausted', 'too often', { detail: { retryAfterMs: 1_500 } });
      }
      return { caller: { name: 'ann' }, params: { app: 'the-id' } };
    },
  });
  const refused = await fetch(`${server.url}/apps/shop`, { method: 'POST', body: 'not JSON' });
  assert.equal(refused.status, 429);
  assert.equal(refused.headers.get('retry-after'), '2');
  const headers = { authorization: 'Bearer x' };
  const answer = await fetch(`${server.url}/apps/shop`, { method: 'POST', body: '{}', headers });
  assert.deepEqual(await answer.json(), { app: 'the-id', caller: 'ann' });
  assert.deepEqual(asked, ['shop', 'shop']);
});

test('who has as many connections as an address may have, or all may have together, gets no more; the exempt do', async () => {
  const isExempt = (address: string) => address === '127.0.0.9';
  await using server = await start({ maxConnections: { ofOne: 2, ofAll: 3, isExempt } });
  const open = (localAddress: string) => {
    const socket = connect({ host: '127.0.0.1', port: server.port, localAddress });
    return socket.on('error', () => undefined).resume();
  };
  const isHeld = async (socket: ReturnType<typeof open>) => {
    socket.write('GET /ping HTTP/1.1\r\nhost: x\r\n\r\n');
    await waitFor(() => socket.bytesRead > 0 || socket.closed, {
      what: 'an answer',
      deadlineMs: 30_000,
      intervalMs: 5,
    });
    return !socket.closed;
  };
  const held: ReturnType<typeof open>[] = [];
  const tryAs = async (address: string) => {
    const socket = open(address);
    held.push(socket);
    return isHeld(socket);
  };
  for (const [address, isLetIn] of [
    ['127.0.0.2', true],
    ['127.0.0.2', true],
    ['127.0.0.2', false],
    ['127.0.0.3', true],
    ['127.0.0.3', false],
    ['127.0.0.4', false],
    ['127.0.0.9', true],
    ['127.0.0.9', true],
  ] as const) {
    assert.equal(await tryAs(address), isLetIn, address);
  }
  held[0]?.destroy();
  await waitFor(() => tryAs('127.0.0.4'), { what: 'the place of one that left', deadlineMs: 30_000 });
  for (const socket of held) socket.destroy();
});
