import assert from 'node:assert/strict';
import { type IncomingMessage, createServer } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { test, type TestContext } from 'node:test';
import { systemClock } from '@flynn/kit/clock';
import { waitFor } from '@flynn/kit/retry';
import { freePort } from '@flynn/kit/testing-ports';
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';
import { PatientClient } from './patient-client.ts';

const answer = z.object({ n: z.int() });
const routes = {
  get: defineRoute({ method: 'GET', path: '/things', response: answer, summary: 'read' }),
  make: defineRoute({ method: 'POST', path: '/things', body: z.object({}), response: answer, summary: 'make' }),
  read: defineRoute({ method: 'GET', path: '/bytes', response: 'stream', summary: 'read bytes' }),
  remove: defineRoute({ method: 'DELETE', path: '/things', response: 'empty', summary: 'remove' }),
  send: defineRoute({ method: 'POST', path: '/bytes', body: 'stream', response: answer, summary: 'send' }),
};

type Said = { status: number; body: unknown } | 'hang up' | 'nothing';

const away: Said = { status: 503, body: { code: 'unavailable', message: 'the store elects' } };

/** Answers in turn, the last one from then on. */
async function serve(t: TestContext, ...says: [Said, ...Said[]]) {
  const asked: IncomingMessage[] = [];
  const server = createServer((request, response) => {
    asked.push(request);
    const said = says[Math.min(asked.length, says.length) - 1];
    request.resume();
    if (said === 'nothing') return;
    if (said === undefined || said === 'hang up') request.socket.destroy();
    else response.writeHead(said.status, { 'content-type': 'application/json' }).end(JSON.stringify(said.body));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, asked };
}

/** On a clock that no pause takes time of but its own. */
function open(t: TestContext, port: number, onSleep: () => Promise<void> = async () => undefined) {
  let nowMs = 0;
  const waits: string[] = [];
  const client = new PatientClient({
    baseUrl: `http://127.0.0.1:${port}`,
    name: 'the controller',
    onWait: ({ message }) => waits.push(message),
    clock: {
      ...systemClock,
      now: () => nowMs,
      sleep: async (ms: number) => {
        nowMs += ms;
        await onSleep();
      },
    },
  });
  t.after(() => client.close());
  return { client, waits };
}

test('what cannot be answered just now is asked again, and a POST names itself the same each time', async (t) => {
  const { port, asked } = await serve(t, away, 'hang up', { status: 200, body: { n: 1 } });
  const { client, waits } = open(t, port);
  assert.deepEqual(await client.call(routes.make, { body: {} }), { n: 1 });
  const names = asked.map(({ headers }) => headers['idempotency-key']);
  assert.equal(names.length, 3);
  assert.equal(new Set(names).size, 1);
  assert.equal(waits.length, 2);
  assert.equal(waits[0], 'the store elects');
  await client.call(routes.make, { body: {} });
  assert.notEqual(asked.at(-1)?.headers['idempotency-key'], names[0]);
});

test('a read asked again has no name', async (t) => {
  const { port, asked } = await serve(t, away, { status: 200, body: { n: 2 } });
  const { client } = open(t, port);
  assert.deepEqual(await client.call(routes.get, {}), { n: 2 });
  assert.equal(asked[1]?.headers['idempotency-key'], undefined);
});

test('what comes as a stream is asked for again until it begins to come', async (t) => {
  const { port, asked } = await serve(t, away, 'hang up', { status: 200, body: { n: 3 } });
  const { client, waits } = open(t, port);
  assert.deepEqual(await json(await client.stream(routes.read, {})), { n: 3 });
  assert.deepEqual([asked.length, waits.length], [3, 2]);
});

test('what is gone when it is to be removed again was removed', async (t) => {
  const gone = { status: 404, body: { code: 'not_found', message: 'there is none' } };
  const lost = await serve(t, 'hang up', gone);
  assert.equal(await open(t, lost.port).client.call(routes.remove, {}), undefined);
  const never = await serve(t, gone);
  await assert.rejects(open(t, never.port).client.call(routes.remove, {}), { code: 'not_found' });
});

test('patience ends, and the last refusal is told', async (t) => {
  const { port, asked } = await serve(t, away);
  const { client, waits } = open(t, port);
  await assert.rejects(client.call(routes.get, {}), { code: 'unavailable', message: 'the store elects' });
  assert.ok(asked.length > 10 && asked.length < 40, `asked ${asked.length} times`);
  assert.equal(waits.length, asked.length - 1);
});

test('a refusal, nobody who listens, and bytes that are gone are told at once', async (t) => {
  const refusing = await serve(t, { status: 409, body: { code: 'conflict', message: 'no' } });
  await assert.rejects(open(t, refusing.port).client.call(routes.get, {}), { code: 'conflict' });
  assert.equal(refusing.asked.length, 1);
  const { client, waits } = open(t, await freePort());
  await assert.rejects(client.call(routes.get, {}), { code: 'unavailable' });
  assert.deepEqual(waits, []);
  const sent = await serve(t, away);
  await assert.rejects(open(t, sent.port).client.call(routes.send, { body: 'some' }), { code: 'unavailable' });
  assert.equal(sent.asked.length, 1);
});

test('who is told to stop asks no more', async (t) => {
  const { port, asked } = await serve(t, away);
  const { client } = open(t, port);
  const stop = new AbortController();
  const calling = client.call(routes.get, {}, { signal: AbortSignal.any([stop.signal, AbortSignal.abort()]) });
  await assert.rejects(calling, { code: 'cancelled' });
  assert.equal(asked.length, 0);
});

test('once it is closed nothing is asked any more, neither what was under way nor what waited', async (t) => {
  const silent = await serve(t, 'nothing');
  const { client, waits } = open(t, silent.port);
  const calling = assert.rejects(client.call(routes.get, {}), { code: 'unavailable' });
  await waitFor(() => silent.asked.length === 1, { what: 'the call to arrive', deadlineMs: 60_000, intervalMs: 10 });
  await client.close();
  await calling;
  assert.deepEqual(waits, []);
  const electing = await serve(t, away);
  const waiting = open(t, electing.port, () => waiting.client.close());
  await assert.rejects(waiting.client.call(routes.get, {}), { code: 'unavailable', message: 'the store elects' });
  assert.equal(electing.asked.length, 1);
});
