import assert from 'node:assert/strict';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { z } from 'zod';
import { booleanFlag } from './config.ts';
import { FlynnError, hasCode } from './errors.ts';
import { HttpClient } from './http-client.ts';
import { handle } from './http-server.ts';
import { startLoopback } from './loopback.ts';
import { waitFor } from './retry.ts';
import { defineRoute } from './routes.ts';

const jobSchema = z.object({ id: z.string(), app: z.string(), limit: z.number(), follow: z.boolean().optional() });
const jobRoute = defineRoute({
  method: 'GET',
  path: '/apps/:app/jobs/:job',
  query: z.object({ limit: z.coerce.number().int().default(10), follow: booleanFlag.optional() }),
  response: jobSchema,
  summary: 'one job',
});
const attachRoute = defineRoute({ method: 'POST', path: '/jobs/:job/attach', response: 'upgrade', summary: 'attach' });

const echoJob = handle(jobRoute, async ({ params, query }) => ({
  id: params.job,
  app: params.app,
  limit: query.limit,
  ...(query.follow === undefined ? {} : { follow: query.follow }),
}));

const deadline = { deadlineMs: 5000, intervalMs: 5 };

test('names under .localhost lead to this machine', async () => {
  await using it = await startLoopback([echoJob, handle(attachRoute, async () => (socket) => socket.end('hi'))]);
  const baseUrl = `http://controller.flynn.localhost:${it.server.port}`;
  await using client = new HttpClient({ baseUrl, name: 'the tester' });
  assert.equal((await client.call(jobRoute, { params: { app: 'a', job: 'j' } })).id, 'j');
  const socket = await client.upgrade(attachRoute, { params: { job: 'x' } });
  assert.equal(await text(socket), 'hi');
});

test('an upgrade hands both sides the raw connection', async () => {
  await using it = await startLoopback(
    [
      handle(attachRoute, async ({ params }) => (socket) => {
        socket.write(`hello ${params.job}\n`);
        socket.pipe(socket);
      }),
    ],
    { key: 'k', clientKey: 'k' },
  );
  const socket = await it.client.upgrade(attachRoute, { params: { job: 'j1' } });
  socket.end('echo me');
  assert.equal(await text(socket), 'hello j1\necho me');
});

test('an upgrade that is refused tells why', async () => {
  await using it = await startLoopback(
    [
      handle(attachRoute, async ({ params }) => {
        throw new FlynnError('not_found', `there is no job ${params.job}`);
      }),
    ],
    { key: 'k', clientKey: 'k' },
  );
  await assert.rejects(
    it.client.upgrade(attachRoute, { params: { job: 'j1' } }),
    (error) => hasCode(error, 'not_found') && error.message === 'there is no job j1',
  );
  await using stranger = new HttpClient({ baseUrl: it.server.url, name: 'the tester' });
  await assert.rejects(stranger.upgrade(attachRoute, { params: { job: 'j1' } }), (error) =>
    hasCode(error, 'unauthenticated'),
  );
  const plain = await fetch(`${it.server.url}/jobs/j1/attach`, {
    method: 'POST',
    headers: { authorization: 'Bearer k' },
  });
  assert.equal(plain.status, 400);
});

test('an upgraded connection that closes aborts the signal of its handler', async () => {
  const seen = Promise.withResolvers<AbortSignal>();
  await using it = await startLoopback([
    handle(attachRoute, async ({ signal }) => {
      seen.resolve(signal);
      return (socket) => void socket.resume();
    }),
  ]);
  const socket = await it.client.upgrade(attachRoute, { params: { job: 'j1' } });
  const signal = await seen.promise;
  assert.equal(signal.aborted, false);
  socket.destroy();
  await waitFor(() => signal.aborted, { what: 'the abort', ...deadline });
});
