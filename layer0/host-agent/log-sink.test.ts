import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { handle, startServer } from '@flynn/kit/http-server';
import { createLogger, silentLogger } from '@flynn/kit/log';
import { AsyncQueue } from '@flynn/kit/queue';
import { waitFor } from '@flynn/kit/retry';
import { TaskGroup } from '@flynn/kit/tasks';
import type { LogLine } from './api.ts';
import { AggregatorSink } from './log-sink.ts';
import { sinkRoute } from './sink-protocol.ts';

function lineOf(message: string): LogLine {
  return {
    jobId: 'h1-a',
    hostId: 'h1',
    stream: 'stdout',
    timestamp: '2026-01-01T00:00:00.000000000Z',
    message,
    meta: {},
  };
}

async function startAggregator(port = 0) {
  const messages: string[] = [];
  const handler = handle(sinkRoute, async ({ body }) => {
    let lines = 0;
    for await (const text of createInterface({ input: body })) {
      messages.push((JSON.parse(text) as LogLine).message);
      lines += 1;
    }
    return { lines };
  });
  const server = await startServer({
    name: 'log-aggregator',
    handlers: [handler],
    log: silentLogger(),
    host: '127.0.0.1',
    port,
    key: 'k',
  });
  return { messages, server, address: `127.0.0.1:${server.port}` };
}

type Event = { event: string; instance?: { id: string; address: string } };

test('every instance gets every line after a replay, and writing waits while there is none', async () => {
  const events = new AsyncQueue<Event>();
  const tasks = new TaskGroup();
  const sink = new AggregatorSink({
    source: { subscribe: () => events },
    key: 'k',
    async *replay() {
      yield lineOf('earlier');
    },
    log: silentLogger(),
  });
  tasks.run('sink', (signal) => sink.run(signal));
  const { signal } = tasks;
  const writing = sink.write(lineOf('first'), { signal });
  const first = await startAggregator();
  const second = await startAggregator();
  events.push({ event: 'up', instance: { id: 'a', address: first.address } });
  await writing;
  await waitFor(() => first.messages.length === 2, { what: 'the first line', deadlineMs: 5_000 });
  assert.deepEqual(first.messages, ['earlier', 'first']);

  events.push({ event: 'up', instance: { id: 'b', address: second.address } });
  await waitFor(() => second.messages.length === 1, { what: 'the replay', deadlineMs: 5_000 });
  await sink.write(lineOf('second'), { signal });
  await waitFor(() => first.messages.length === 3 && second.messages.length === 2, { what: 'both', deadlineMs: 5_000 });

  events.push({ event: 'down', instance: { id: 'a', address: first.address } });
  events.push({ event: 'current' });
  await waitFor(
    async () => {
      await sink.write(lineOf('third'), { signal });
      return second.messages.filter((message) => message === 'third').length > 3;
    },
    { what: 'the other to go on', deadlineMs: 5_000 },
  );
  events.end();
  await tasks.stop();
  await Promise.all([first.server.close(), second.server.close()]);
});

test('an instance that comes back under its name is told again what there is', async () => {
  const events = new AsyncQueue<Event>();
  const tasks = new TaskGroup();
  const sink = new AggregatorSink({
    source: { subscribe: () => events },
    key: 'k',
    async *replay() {
      yield lineOf('earlier');
    },
    log: silentLogger(),
  });
  tasks.run('sink', (signal) => sink.run(signal));
  const before = await startAggregator();
  events.push({ event: 'up', instance: { id: 'a', address: before.address } });
  await waitFor(() => before.messages.length === 1, { what: 'the replay', deadlineMs: 5_000 });
  await before.server.close();
  const after = await startAggregator(before.server.port);
  await waitFor(() => after.messages.includes('earlier'), { what: 'the replay again', deadlineMs: 10_000 });
  events.end();
  await tasks.stop();
  await after.server.close();
});

test('lines that come while the connection is lost are told once it is back', async () => {
  const said = new PassThrough();
  const events = new AsyncQueue<Event>();
  const tasks = new TaskGroup();
  const sink = new AggregatorSink({
    source: { subscribe: () => events },
    key: 'k',
    async *replay() {},
    log: createLogger('sink', { destination: said }),
  });
  tasks.run('sink', (signal) => sink.run(signal));
  const before = await startAggregator();
  events.push({ event: 'up', instance: { id: 'a', address: before.address } });
  await sink.write(lineOf('first'), { signal: tasks.signal });
  await waitFor(() => before.messages.length === 1, { what: 'the first line', deadlineMs: 5_000 });
  await before.server.close();
  await once(said, 'readable', { signal: AbortSignal.timeout(10_000) });
  const after = await startAggregator(before.server.port);
  for (const message of ['second', 'third']) {
    await sink.write(lineOf(message), { signal: tasks.signal });
    await waitFor(() => after.messages.includes(message), { what: `the ${message} line`, deadlineMs: 10_000 });
  }
  assert.deepEqual(after.messages, ['second', 'third']);
  events.end();
  await tasks.stop();
  await after.server.close();
});
