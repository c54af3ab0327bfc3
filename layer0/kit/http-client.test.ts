import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import { test } from 'node:test';
import { FlynnError, hasCode } from './errors.ts';
import { HttpClient } from './http-client.ts';
import { handle } from './http-server.ts';
import { startLoopback } from './loopback.ts';
import { waitFor } from './retry.ts';
import { createRoute, deadline, deleteRoute, echoJob, jobRoute } from './testing-routes.ts';

test('a call carries parameters and query, and gives back what the schema says', async () => {
  await using it = await startLoopback([echoJob]);
  const job = await it.client.call(jobRoute, {
    params: { app: 'a/b ü', job: 'j?1' },
    query: { limit: 3, follow: true },
  });
  assert.deepEqual(job, { id: 'j?1', app: 'a/b ü', limit: 3, follow: true });
  const byDefault = await it.client.call(jobRoute, { params: { app: 'a', job: 'j' } });
  assert.equal(byDefault.limit, 10);
});

test('the types of calls and handlers follow from the route', () => {
  // Each expected error is a check: the file does not compile when the mistake is accepted.
  const typed = async (client: HttpClient) => {
    // @ts-expect-error parameters are required
    await client.call(jobRoute, {});
    // @ts-expect-error a parameter is missing
    await client.call(jobRoute, { params: { app: 'a' } });
    // @ts-expect-error a body is required
    await client.call(createRoute, {});
    // @ts-expect-error the body has another type
    await client.call(createRoute, { body: { name: 1 } });
    // @ts-expect-error the query has another type
    await client.call(jobRoute, { params: { app: 'a', job: 'j' }, query: { limit: 'x', follow: 3 } });
    const answer: { name: string } = await client.call(createRoute, { body: { name: 'x' } });
    const nothing: void = await client.call(deleteRoute, { params: { app: 'a' } });
    // @ts-expect-error the result has another type
    handle(createRoute, async () => ({ name: 1 }));
    // @ts-expect-error there is no such parameter
    handle(jobRoute, async ({ params }) => ({ id: params.nope, app: '', limit: 1 }));
    return { answer, nothing };
  };
  assert.equal(typeof typed, 'function');
});

test('an error thrown by a handler is caught by the caller like a local one', async () => {
  await using it = await startLoopback([
    handle(deleteRoute, async ({ params }) => {
      throw new FlynnError('conflict', `${params.app} has datastores: delete them first`, { detail: { count: 2 } });
    }),
  ]);
  await assert.rejects(it.client.call(deleteRoute, { params: { app: 'shop' } }), (error) => {
    assert.ok(hasCode(error, 'conflict'));
    assert.equal(error.message, 'shop has datastores: delete them first');
    assert.deepEqual(error.detail, { count: 2 });
    return true;
  });
});

test('a client that goes away aborts the signal of the handler, and its own call ends as cancelled', async () => {
  const seen = Promise.withResolvers<AbortSignal>();
  await using it = await startLoopback([
    handle(deleteRoute, async ({ signal }) => {
      seen.resolve(signal);
      await once(signal, 'abort');
    }),
  ]);
  const leaving = new AbortController();
  const call = it.client.call(deleteRoute, { params: { app: 'x' } }, { signal: leaving.signal });
  const signal = await seen.promise;
  assert.equal(signal.aborted, false);
  leaving.abort();
  await assert.rejects(call, (error) => hasCode(error, 'cancelled'));
  await waitFor(() => signal.aborted, { what: 'the abort', ...deadline });
});

test('a call that takes too long ends as timeout and names the service', async () => {
  await using it = await startLoopback([
    handle(deleteRoute, async ({ signal }) => {
      await once(signal, 'abort');
    }),
  ]);
  await assert.rejects(it.client.call(deleteRoute, { params: { app: 'x' } }, { timeoutMs: 50 }), (error) => {
    assert.ok(hasCode(error, 'timeout'));
    assert.equal(error.message, 'the tester did not answer DELETE /apps/:app within 0.05 s');
    return true;
  });
});

test('a service that is not there is unavailable', async () => {
  const it = await startLoopback([echoJob]);
  await it.server.close();
  await assert.rejects(it.client.call(jobRoute, { params: { app: 'a', job: 'j' } }), (error) => {
    assert.ok(hasCode(error, 'unavailable'));
    assert.match(error.message, /cannot reach the tester \(GET \/apps\/:app\/jobs\/:job\)/);
    return true;
  });
  await it.client.close();
});

test('an answer that does not fit the schema is internal, and an error of a stranger gets the nearest code', async () => {
  await using stranger = http.createServer((request, response) => {
    response.statusCode = request.method === 'GET' ? 200 : 502;
    response.end('<html>');
  });
  stranger.listen(0, '127.0.0.1');
  await once(stranger, 'listening');
  const address = stranger.address();
  assert.ok(typeof address === 'object' && address !== null);
  await using client = new HttpClient({
    baseUrl: async () => `http://127.0.0.1:${address.port}/`,
    name: 'the stranger',
  });
  await assert.rejects(client.call(jobRoute, { params: { app: 'a', job: 'j' } }), (error) =>
    hasCode(error, 'internal'),
  );
  await assert.rejects(client.call(deleteRoute, { params: { app: 'a' } }), (error) => hasCode(error, 'unavailable'));
});

test('who is sent elsewhere is told where, and does not follow: what it carries is for the one it asked', async () => {
  await using stranger = http.createServer((request, response) => {
    response.writeHead(301, request.method === 'GET' ? { location: 'https://there.example.com/' } : {}).end('moved');
  });
  stranger.listen(0, '127.0.0.1');
  await once(stranger, 'listening');
  const address = stranger.address();
  assert.ok(typeof address === 'object' && address !== null);
  await using client = new HttpClient({ baseUrl: `http://127.0.0.1:${address.port}`, name: 'the stranger' });
  const asked = client.call(jobRoute, { params: { app: 'a', job: 'j' } });
  await assert.rejects(asked, { code: 'denied', message: /asked elsewhere .*https:\/\/there\.example\.com\/$/ });
  await assert.rejects(client.call(deleteRoute, { params: { app: 'a' } }), { message: /it does not say where/ });
});
