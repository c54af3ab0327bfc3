import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { connect } from 'node:net';
import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { z } from 'zod';
import { FlynnError, hasCode } from './errors.ts';
import { HttpClient } from './http-client.ts';
import { handle, startServer } from './http-server.ts';
import { startLoopback } from './loopback.ts';
import { createLogger, silentLogger } from './log.ts';
import { waitFor } from './retry.ts';
import { defineRoute } from './routes.ts';
import { createRoute, deadline, deleteRoute, echoJob, jobRoute } from './testing-routes.ts';

const openRoute = defineRoute({ method: 'GET', path: '/open', response: 'empty', summary: 'open', access: 'open' });

test('a bug in a handler is told as internal without its message, with the id under which it was logged', async () => {
  await using it = await startLoopback([
    handle(deleteRoute, async () => {
      throw new RangeError('secret internals');
    }),
  ]);
  const response = await fetch(`${it.server.url}/apps/x`, { method: 'DELETE', headers: { 'x-request-id': 'abc-1' } });
  assert.equal(response.status, 500);
  assert.equal(response.headers.get('x-request-id'), 'abc-1');
  const body = await response.text();
  assert.match(body, /abc-1/);
  assert.doesNotMatch(body, /secret internals/);
});

test('what a token stands in has its route in the log, for it may be all of the token, and good', async () => {
  const route = defineRoute({ method: 'DELETE', path: '/tokens/:token', response: 'empty', summary: 'a token' });
  const fail = async () => Promise.reject(new FlynnError('unavailable', 'the store is away'));
  const written = new PassThrough();
  const log = createLogger('tester', { destination: written });
  const options = { handlers: [handle(route, fail)], log, host: '127.0.0.1', port: 0, name: 'tester' };
  const server = await startServer(options);
  try {
    assert.equal((await fetch(`${server.url}/tokens/secret`, { method: 'DELETE' })).status, 503);
  } finally {
    await server.close();
  }
  const logged = String(written.read());
  assert.match(logged, /DELETE \/tokens\/:token failed/);
  assert.doesNotMatch(logged, /secret/);
});

test('who waits for an answer is told that it is being worked on, and gets it; nobody of before 1.1 is', async () => {
  await using it = await startLoopback([
    handle(deleteRoute, async ({ tellOfWork }) => {
      tellOfWork();
      tellOfWork();
    }),
  ]);
  const told: (number | undefined)[] = [];
  const asked = request(`${it.server.url}/apps/x`, { method: 'DELETE' });
  asked.on('information', ({ statusCode }) => told.push(statusCode));
  const answered = once(asked, 'response');
  asked.end();
  const [{ statusCode }] = (await answered) as [IncomingMessage];
  assert.deepEqual([...told, statusCode], [102, 102, 204]);
  assert.equal(await it.client.call(deleteRoute, { params: { app: 'x' } }), undefined);
  const old = connect(Number(new URL(it.server.url).port), '127.0.0.1');
  old.write('DELETE /apps/x HTTP/1.0\r\n\r\n');
  assert.match(await text(old), /^HTTP\/1\.1 204 /);
});

test('an empty answer is 204', async () => {
  await using it = await startLoopback([handle(deleteRoute, async () => undefined)]);
  assert.equal(await it.client.call(deleteRoute, { params: { app: 'x' } }), undefined);
  const response = await fetch(`${it.server.url}/apps/x`, { method: 'DELETE' });
  assert.equal(response.status, 204);
});

test('a body that is not JSON, or not what the schema says, is invalid with readable text', async () => {
  await using it = await startLoopback([handle(createRoute, async ({ body }) => body)]);
  const post = async (body: string) => {
    const response = await fetch(`${it.server.url}/apps`, { method: 'POST', body });
    return { status: response.status, text: await response.text() };
  };
  const broken = await post('{"name":');
  assert.equal(broken.status, 400);
  assert.match(broken.text, /"code":"invalid".*the body of POST \/apps is not JSON/);
  const wrong = await post('{"name":7}');
  assert.equal(wrong.status, 400);
  assert.match(wrong.text, /the body of POST \/apps is not valid.*expected string, received number.*name/);
  const missing = await post('');
  assert.match(missing.text, /expected object, received undefined/);
});

test('a JSON body over 4 MB is invalid, whether its length was announced or not', async () => {
  await using it = await startLoopback([handle(createRoute, async ({ body }) => body)]);
  const name = 'x'.repeat(4 * 1024 * 1024);
  await assert.rejects(it.client.call(createRoute, { body: { name } }), /larger than 4 MB/);
  const chunked = new ReadableStream({
    start(controller) {
      controller.enqueue(new TextEncoder().encode(JSON.stringify({ name })));
      controller.close();
    },
  });
  const response = await fetch(`${it.server.url}/apps`, { method: 'POST', body: chunked, duplex: 'half' });
  assert.equal(response.status, 400);
});

test('a query that does not fit is invalid with readable text', async () => {
  await using it = await startLoopback([echoJob]);
  const response = await fetch(`${it.server.url}/apps/a/jobs/j?limit=many`);
  assert.equal(response.status, 400);
  assert.match(await response.text(), /the query of GET \/apps\/:app\/jobs\/:job is not valid.*limit/);
});

test('an unknown path is not_found and names the path', async () => {
  await using it = await startLoopback([echoJob], { key: 'k' });
  const response = await fetch(`${it.server.url}/apps/a/nothing`);
  assert.equal(response.status, 404);
  assert.match(
    await response.text(),
    /"code":"not_found","message":"the tester has nothing at GET \/apps\/a\/nothing"/,
  );
});

test('the key opens the door as bearer or basic password, and a wrong or missing one is unauthenticated', async () => {
  await using it = await startLoopback([echoJob, handle(openRoute, async () => undefined)], {
    key: ['old', 'new'],
    clientKey: 'new',
  });
  const status = async (path: string, authorization?: string) => {
    const headers: Record<string, string> = authorization === undefined ? {} : { authorization };
    const response = await fetch(`${it.server.url}${path}`, { headers });
    await response.text();
    return response.status;
  };
  const path = '/apps/a/jobs/j';
  assert.equal((await it.client.call(jobRoute, { params: { app: 'a', job: 'j' } })).id, 'j');
  assert.equal(await status(path, 'Bearer old'), 200);
  assert.equal(await status(path, `Basic ${Buffer.from('anyone:new').toString('base64')}`), 200);
  assert.equal(await status(path, 'Bearer wrong'), 401);
  assert.equal(await status(path, `Basic ${Buffer.from('new:wrong').toString('base64')}`), 401);
  assert.equal(await status(path), 401);
  assert.equal(await status('/open'), 204);
  assert.equal(await status('/ping'), 200);
  await using stranger = new HttpClient({ baseUrl: it.server.url, name: 'the tester', key: 'wrong' });
  await assert.rejects(stranger.call(jobRoute, { params: { app: 'a', job: 'j' } }), (error) =>
    hasCode(error, 'unauthenticated'),
  );
});

test('a server with an empty key does not start', async () => {
  await assert.rejects(startLoopback([echoJob], { key: '' }), /anybody could use it/);
});

test('a literal path wins over a parameter, whatever the order of handlers', async () => {
  const one = defineRoute({ method: 'GET', path: '/jobs/:job', response: z.string(), summary: 'one' });
  const search = defineRoute({ method: 'GET', path: '/jobs/search', response: z.string(), summary: 'search' });
  await using it = await startLoopback([
    handle(one, async ({ params }) => params.job),
    handle(search, async () => 'literal'),
  ]);
  assert.equal(await it.client.call(search, {}), 'literal');
  assert.equal(await it.client.call(one, { params: { job: 'other' } }), 'other');
});

test('closing the server lets a running request finish', async () => {
  const started = Promise.withResolvers<void>();
  const release = Promise.withResolvers<void>();
  await using it = await startLoopback([
    handle(deleteRoute, async () => {
      started.resolve();
      await release.promise;
    }),
  ]);
  const call = it.client.call(deleteRoute, { params: { app: 'x' } });
  await started.promise;
  const closed = it.server.close();
  release.resolve();
  await call;
  await closed;
});

test('a server closes when its signal aborts', async () => {
  const stop = new AbortController();
  const options = { handlers: [echoJob], log: silentLogger(), host: '127.0.0.1', port: 0, name: 'tester' };
  await using server = await startServer({ ...options, signal: stop.signal });
  assert.ok((await fetch(`${server.url}/ping`)).ok);
  stop.abort();
  await waitFor(
    () =>
      fetch(`${server.url}/ping`).then(
        () => false,
        () => true,
      ),
    { what: 'the server to close', ...deadline },
  );
});

test('a port that is taken is a conflict that says so', async () => {
  await using it = await startLoopback([echoJob]);
  const options = { handlers: [echoJob], log: silentLogger(), host: '127.0.0.1', name: 'second' };
  await assert.rejects(startServer({ ...options, port: it.server.port }), (error) => {
    assert.ok(hasCode(error, 'conflict'));
    assert.match(error.message, /the second cannot listen on port \d+ of 127.0.0.1: something else does already/);
    return true;
  });
});
