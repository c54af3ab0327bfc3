import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { FlynnError, hasCode } from './errors.ts';
import { HttpClient } from './http-client.ts';
import { handle } from './http-server.ts';
import { startLoopback } from './loopback.ts';
import { waitFor } from './retry.ts';
import { defineRoute } from './routes.ts';
import { closed } from './testing-sockets.ts';
import { deadline, echoJob, jobRoute } from './testing-routes.ts';

const attachRoute = defineRoute({ method: 'POST', path: '/jobs/:job/attach', response: 'upgrade', summary: 'attach' });

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

test('an upgrade behind a request that is not answered yet ends its connection, and nothing else', async () => {
  const answers = Promise.withResolvers<void>();
  await using it = await startLoopback([
    handle(jobRoute, async ({ params: { job } }) => {
      await answers.promise;
      return { id: job, app: 'a', limit: 1 };
    }),
    handle(attachRoute, async () => (socket) => socket.end('hi')),
  ]);
  const socket = connect(it.server.port, '127.0.0.1');
  const upgrade = 'POST /jobs/j/attach HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: flynn\r\n\r\n';
  socket.write(`GET /apps/a/jobs/j HTTP/1.1\r\nHost: x\r\n\r\n${upgrade}`);
  await closed(socket);
  answers.resolve();
  // Node answers this one itself, and tells nobody.
  const unexpected = connect(it.server.port, '127.0.0.1');
  unexpected.write(`GET /ping HTTP/1.1\r\nHost: x\r\nExpect: something\r\n\r\n${upgrade}`);
  await closed(unexpected.resume());
  const next = connect(it.server.port, '127.0.0.1');
  next.write(`GET /ping HTTP/1.1\r\nHost: x\r\n\r\n`);
  await once(next, 'data');
  next.write(upgrade);
  assert.match(await text(next), /^HTTP\/1.1 101 [^]*\r\n\r\nhi$/);
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

const rawUpgrade = 'POST /jobs/j1/attach HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: flynn\r\n\r\n';

for (const [how, leave] of [
  ['ends', 'end'],
  ['breaks off', 'destroy'],
] as const) {
  test(`a client that ${how} while its upgrade is pending aborts the signal of the handler`, async () => {
    const seen = Promise.withResolvers<AbortSignal>();
    await using it = await startLoopback([
      handle(attachRoute, async ({ signal }) => {
        seen.resolve(signal);
        await waitFor(() => signal.aborted, { what: 'the abort', deadlineMs: 60_000 });
        throw new FlynnError('cancelled', 'the client went away');
      }),
    ]);
    const socket = connect(it.server.port, '127.0.0.1');
    socket.on('error', () => socket.destroy());
    socket.write(rawUpgrade);
    const signal = await seen.promise;
    assert.equal(signal.aborted, false);
    socket[leave]();
    await waitFor(() => signal.aborted, { what: 'the abort', ...deadline });
    socket.destroy();
  });
}

test('what a client says before its upgrade is answered is there afterwards, in order', async () => {
  const pending = Promise.withResolvers<void>();
  const answering = Promise.withResolvers<void>();
  await using it = await startLoopback([
    handle(attachRoute, async () => {
      pending.resolve();
      await answering.promise;
      return (socket) => void socket.pipe(socket);
    }),
  ]);
  const socket = connect(it.server.port, '127.0.0.1');
  socket.write(`${rawUpgrade}first `);
  await pending.promise;
  await new Promise<void>((resolve) => void socket.write('second ', () => resolve()));
  answering.resolve();
  let got = '';
  for await (const chunk of socket) {
    got += String(chunk);
    if (got.includes('second')) break;
  }
  assert.match(got, /^HTTP\/1.1 101 .*\r\n\r\nfirst second $/s);
});

test('a connection that closed before it was handed over tells its new owner so', async () => {
  const closed = Promise.withResolvers<void>();
  await using it = await startLoopback([
    handle(attachRoute, async ({ signal }) => {
      await waitFor(() => signal.aborted, { what: 'the abort', deadlineMs: 60_000 });
      return (socket) => void socket.once('close', closed.resolve);
    }),
  ]);
  const socket = connect(it.server.port, '127.0.0.1');
  socket.write(rawUpgrade, () => socket.destroy());
  await Promise.race([
    closed.promise,
    new Promise((_resolve, reject) => setTimeout(() => reject(new Error('no close event')), 60_000).unref()),
  ]);
});

test('the connection of a refused upgrade is closed, whether the client closes its side or not', async () => {
  await using it = await startLoopback([handle(attachRoute, async () => (socket) => socket.end())], { key: 'k' });
  const socket = connect({ port: it.server.port, host: '127.0.0.1', allowHalfOpen: true });
  let isClosed = false;
  socket.on('error', () => socket.destroy());
  socket.once('close', () => (isClosed = true));
  let said = '';
  socket.on('data', (chunk: Buffer) => (said += chunk.toString()));
  socket.write(rawUpgrade);
  await once(socket, 'end');
  assert.match(said, /^HTTP\/1.1 401 .*unauthenticated/s);
  // Who writes to a connection that is closed is told so.
  await waitFor(() => isClosed || void socket.write('x'), { what: 'the server to close', ...deadline });
});
