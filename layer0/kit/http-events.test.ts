import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import { test } from 'node:test';
import { FlynnError, hasCode } from './errors.ts';
import { HttpClient } from './http-client.ts';
import { handle } from './http-server.ts';
import { startLoopback } from './loopback.ts';
import { AsyncQueue } from './queue.ts';
import { waitFor } from './retry.ts';
import { type ServerEvent, defineRoute } from './routes.ts';
import { deadline } from './testing-routes.ts';

const eventsRoute = defineRoute({ method: 'GET', path: '/events', response: 'events', summary: 'follow' });

test('events arrive in order, and a client resumes after the last id it saw', async () => {
  await using it = await startLoopback([
    handle(eventsRoute, async ({ headers }) => {
      const after = Number(headers['last-event-id'] ?? 0);
      return (async function* count(): AsyncGenerator<ServerEvent> {
        for (let id = after + 1; id <= 4; id += 1) yield { id: String(id), event: 'tick', data: { id, text: 'ü\n\n' } };
      })();
    }),
  ]);
  const ids = async (lastEventId?: string) => {
    const { signal } = new AbortController();
    const options = lastEventId === undefined ? { signal } : { signal, lastEventId };
    const events: ServerEvent[] = await Array.fromAsync(it.client.events(eventsRoute, {}, options));
    assert.ok(events.every(({ data, event, id }) => event === 'tick' && JSON.stringify(data).includes(`"id":${id}`)));
    return events.map((event) => event.id);
  };
  assert.deepEqual(await ids(), ['1', '2', '3', '4']);
  assert.deepEqual(await ids('2'), ['3', '4']);
});

test('a client that stops following aborts the signal of the handler', async () => {
  const queue = new AsyncQueue<ServerEvent>();
  const seen = Promise.withResolvers<AbortSignal>();
  await using it = await startLoopback([
    handle(eventsRoute, async ({ signal }) => {
      seen.resolve(signal);
      return queue;
    }),
  ]);
  const leaving = new AbortController();
  const events = it.client.events(eventsRoute, {}, { signal: leaving.signal });
  queue.push({ event: 'one', data: 1 });
  assert.deepEqual((await events.next()).value, { event: 'one', data: 1 });
  leaving.abort();
  assert.equal((await events.next()).done, true);
  const signal = await seen.promise;
  await waitFor(() => signal.aborted && queue.isEnded, { what: 'the end of the stream', ...deadline });
});

test('a client may stop following at the last event of all', async () => {
  await using it = await startLoopback([
    handle(eventsRoute, async () =>
      (async function* single(): AsyncGenerator<ServerEvent> {
        yield { event: 'last', data: null };
      })(),
    ),
  ]);
  // Whether the end of the stream comes with the event is a matter of the moment.
  for (let round = 0; round < 20; round += 1) {
    const leaving = new AbortController();
    for await (const { event } of it.client.events(eventsRoute, {}, { signal: leaving.signal })) {
      assert.equal(event, 'last');
      leaving.abort();
    }
  }
});

test('an event stream that fails on the server throws the same error at the reader', async () => {
  await using it = await startLoopback([
    handle(eventsRoute, async () =>
      (async function* failing(): AsyncGenerator<ServerEvent> {
        yield { event: 'one', data: null };
        throw new FlynnError('conflict', 'compacted: list again');
      })(),
    ),
  ]);
  const events = it.client.events(eventsRoute, {}, { signal: new AbortController().signal });
  assert.equal((await events.next()).done, false);
  await assert.rejects(
    events.next(),
    (error) => hasCode(error, 'conflict') && error.message === 'compacted: list again',
  );
});

test('an event stream whose connection breaks is unavailable', async () => {
  await using server = http.createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write('event: one\ndata: 1\n\n', () => response.socket?.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  await using client = new HttpClient({ baseUrl: `http://127.0.0.1:${address.port}`, name: 'the tester' });
  const events = client.events(eventsRoute, {}, { signal: new AbortController().signal });
  await assert.rejects(Array.fromAsync(events), (error) => hasCode(error, 'unavailable'));
});

test('closing the server ends event streams at once and cleanly', async () => {
  const asked = Promise.withResolvers<void>();
  await using it = await startLoopback([
    handle(eventsRoute, async () => {
      asked.resolve();
      return new AsyncQueue<ServerEvent>();
    }),
  ]);
  const events = it.client.events(eventsRoute, {}, { signal: new AbortController().signal });
  const end = events.next();
  await asked.promise;
  await waitFor(async () => (await fetch(`${it.server.url}/ping`)).ok, { what: 'the server', ...deadline });
  await it.server.close();
  // One that is cut after the time to drain ends as `unavailable`.
  assert.equal((await end).done, true);
});

test('a quiet event stream carries a heartbeat every 15 s', async (context) => {
  context.mock.timers.enable({ apis: ['setInterval'] });
  await using it = await startLoopback([handle(eventsRoute, async () => new AsyncQueue<ServerEvent>())]);
  const response = await fetch(`${it.server.url}/events`);
  const reader = response.body?.getReader();
  const next = async () => new TextDecoder().decode((await reader?.read())?.value);
  assert.match(await next(), /^:.*\n\n$/);
  context.mock.timers.tick(15_000);
  assert.match(await next(), /^:.*\n\n$/);
  context.mock.timers.reset();
  await reader?.cancel();
});
