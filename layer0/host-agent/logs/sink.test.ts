import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { FlynnError } from '@flynn/kit/errors';
import { handle, startServer } from '@flynn/kit/http-server';
import { createLogger, type Logger, silentLogger } from '@flynn/kit/log';
import { AsyncQueue } from '@flynn/kit/queue';
import { waitFor } from '@flynn/kit/retry';
import { TaskGroup } from '@flynn/kit/tasks';
import { freePort } from '@flynn/kit/testing-ports';
import type { LogLine } from '../api.ts';
import { AggregatorSink } from './sink.ts';
import { sinkRoute } from './sink-protocol.ts';
import type { Sending } from './sink-protocol.ts';

function lineOf(message: string, jobId = 'h1-a'): LogLine {
  return {
    jobId,
    hostId: 'h1',
    stream: 'stdout',
    timestamp: '2026-01-01T00:00:00.000000000Z',
    message,
    meta: {},
  };
}

/** `before` may hold up or refuse what arrived. */
async function startAggregator(
  port = 0,
  before: (messages: readonly string[], mode: Sending) => Promise<void> = async () => {},
) {
  const messages: string[] = [];
  const handler = handle(sinkRoute, async ({ body, query }) => {
    const arrived: string[] = [];
    for await (const text of createInterface({ input: body })) arrived.push((JSON.parse(text) as LogLine).message);
    await before(arrived, query.mode);
    messages.push(...arrived);
    return { lines: arrived.length };
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

/** A sink that runs until the test is over, or until `stop`. */
function startSink(
  t: TestContext,
  {
    replay = async function* () {},
    log = silentLogger(),
  }: { replay?: () => AsyncIterable<LogLine>; log?: Logger } = {},
) {
  const events = new AsyncQueue<Event>();
  const tasks = new TaskGroup();
  const sink = new AggregatorSink({ source: { subscribe: () => events }, access: { key: 'k' }, replay, log });
  tasks.run('sink', (signal) => sink.run(signal));
  const stop = async () => {
    events.end();
    await tasks.stop();
  };
  t.after(stop);
  return { events, sink, signal: tasks.signal, stop };
}

const replayEarlier = async function* () {
  yield lineOf('earlier');
};

test('every instance gets every line after a replay, and writing waits while there is none', async (t) => {
  const { events, sink, signal, stop } = startSink(t, { replay: replayEarlier });
  const writing = sink.write(lineOf('first'), { signal });
  const first = await startAggregator();
  const second = await startAggregator();
  events.push({ event: 'up', instance: { id: 'a', address: first.address } });
  await writing;
  await waitFor(() => first.messages.length === 2, { what: 'the first line', deadlineMs: 30_000 });
  assert.deepEqual(first.messages, ['earlier', 'first']);

  events.push({ event: 'up', instance: { id: 'b', address: second.address } });
  await waitFor(() => second.messages.length === 1, { what: 'the replay', deadlineMs: 30_000 });
  await sink.write(lineOf('second'), { signal });
  await waitFor(() => first.messages.length === 3 && second.messages.length === 2, {
    what: 'both',
    deadlineMs: 30_000,
  });

  events.push({ event: 'down', instance: { id: 'a', address: first.address } });
  events.push({ event: 'current' });
  await waitFor(
    async () => {
      await sink.write(lineOf('third'), { signal });
      return second.messages.filter((message) => message === 'third').length > 3;
    },
    { what: 'the other to go on', deadlineMs: 30_000 },
  );
  await stop();
  await Promise.all([first.server.close(), second.server.close()]);
});

test('an instance that comes back under its name is told again what there is', async (t) => {
  const said = new PassThrough();
  const { events, sink, signal, stop } = startSink(t, {
    replay: replayEarlier,
    log: createLogger('sink', { destination: said }),
  });
  const before = await startAggregator(await freePort());
  events.push({ event: 'up', instance: { id: 'a', address: before.address } });
  await waitFor(() => before.messages.length === 1, { what: 'the replay', deadlineMs: 30_000 });
  await before.server.close();
  // That it was away shows with the next line.
  await sink.write(lineOf('later'), { signal });
  await once(said, 'readable', { signal: AbortSignal.timeout(60_000) });
  const after = await startAggregator(before.server.port);
  await waitFor(() => after.messages.includes('later') && after.messages.includes('earlier'), {
    what: 'the line and the replay again',
    deadlineMs: 60_000,
  });
  await stop();
  await after.server.close();
});

test('lines that come while the connection is lost are told once it is back', async (t) => {
  const said = new PassThrough();
  const { events, sink, signal, stop } = startSink(t, { log: createLogger('sink', { destination: said }) });
  const before = await startAggregator(await freePort());
  events.push({ event: 'up', instance: { id: 'a', address: before.address } });
  await sink.write(lineOf('first'), { signal });
  await waitFor(() => before.messages.length === 1, { what: 'the first line', deadlineMs: 30_000 });
  await before.server.close();
  await sink.write(lineOf('second'), { signal });
  await once(said, 'readable', { signal: AbortSignal.timeout(60_000) });
  const after = await startAggregator(before.server.port);
  await waitFor(() => after.messages.includes('second'), { what: 'the second line', deadlineMs: 60_000 });
  await sink.write(lineOf('third'), { signal });
  await waitFor(() => after.messages.includes('third'), { what: 'the third line', deadlineMs: 60_000 });
  assert.deepEqual(after.messages, ['second', 'third']);
  await stop();
  await after.server.close();
});

test('a flood of one app leaves the lines of another not more than a batch behind', async (t) => {
  const { events, sink, signal } = startSink(t);
  const gate = Promise.withResolvers<void>();
  const aggregator = await startAggregator(0, () => gate.promise);
  t.after(() => aggregator.server.close());
  events.push({ event: 'up', instance: { id: 'a', address: aggregator.address } });
  let flooded = 0;
  const flood = (async () => {
    for (; flooded < 100_000; flooded += 1) await sink.write(lineOf('flood', 'h1-flood'), { signal });
  })();
  const full = () => flooded > 1_000;
  await waitFor(full, { what: 'the flood to fill its lane', deadlineMs: 60_000 });
  let isTaken = false;
  const quiet = sink.write(lineOf('quiet', 'h1-quiet'), { signal }).then(() => (isTaken = true));
  await new Promise((resolve) => setImmediate(resolve));
  assert.ok(isTaken, 'the quiet app does not wait while the flood does');
  gate.resolve();
  await waitFor(() => aggregator.messages.includes('quiet'), { what: 'the quiet line', deadlineMs: 60_000 });
  // The batch under way, and the one the line is in.
  const before = aggregator.messages.indexOf('quiet');
  assert.ok(before <= 2_000, `${before} lines of the flood came before it`);
  await Promise.all([flood, quiet]);
  await waitFor(() => aggregator.messages.length === 100_001, { what: 'all of it', deadlineMs: 60_000 });
});

test('an instance that cannot be reached gets no more with each try, and all of it in order once it can', async (t) => {
  const { events, sink, signal } = startSink(t);
  const answering = Promise.withResolvers<void>();
  let isAway = true;
  let tries = 0;
  const aggregator = await startAggregator(0, async () => {
    if (!isAway) return;
    tries += 1;
    await answering.promise;
    throw new FlynnError('unavailable', 'it is away');
  });
  t.after(() => aggregator.server.close());
  events.push({ event: 'up', instance: { id: 'a', address: aggregator.address } });
  const apps = ['h1-a', 'h1-b', 'h1-c', 'h1-d'];
  const written = new Map<string, number>();
  const leaving = new AbortController();
  const flooding = apps.map(async (job) => {
    for (let at = 0; !leaving.signal.aborted; at += 1) {
      await sink.write(lineOf(`${job} ${at}`, job), { signal: AbortSignal.any([signal, leaving.signal]) });
      written.set(job, at + 1);
    }
  });
  const ended = Promise.allSettled(flooding);
  const count = () => [...written.values()].reduce((sum, each) => sum + each, 0);
  await waitFor(() => tries === 1 && count() >= 5_000, { what: 'the queue to be full', deadlineMs: 60_000 });
  answering.resolve();
  await waitFor(() => tries === 3, { what: 'two more tries', deadlineMs: 60_000 });
  assert.ok(count() <= 8_000, `${count()} lines are held`);
  leaving.abort();
  await ended;
  isAway = false;
  await waitFor(() => aggregator.messages.length === count(), { what: 'all of them', deadlineMs: 60_000 });
  for (const job of apps) {
    assert.deepEqual(
      aggregator.messages.filter((message) => message.startsWith(job)),
      Array.from({ length: written.get(job) ?? 0 }, (_, at) => `${job} ${at}`),
    );
  }
});

test('what one instance took and did not confirm goes to the next', async (t) => {
  const { events, sink, signal } = startSink(t);
  const modes: string[] = [];
  let isAsked = false;
  const never = new Promise<void>(() => {});
  const dying = await startAggregator(0, () => {
    isAsked = true;
    return never;
  });
  events.push({ event: 'up', instance: { id: 'a', address: dying.address } });
  for (const message of ['one', 'two', 'three']) await sink.write(lineOf(message), { signal });
  await waitFor(() => isAsked, { what: 'the batch to be on its way', deadlineMs: 60_000 });
  await sink.write(lineOf('four'), { signal });
  events.push({ event: 'down', instance: { id: 'a', address: dying.address } });
  const next = await startAggregator(0, async (_, mode) => void modes.push(mode));
  t.after(() => Promise.all([dying.server.close(), next.server.close()]));
  events.push({ event: 'up', instance: { id: 'b', address: next.address } });
  await waitFor(() => next.messages.length === 4, { what: 'all four', deadlineMs: 60_000 });
  assert.deepEqual(next.messages, ['one', 'two', 'three', 'four']);
  assert.deepEqual(modes, ['again']);
});

test('a line that may have been in the replay is not sent as if it were new', async (t) => {
  const sent: [string, string][] = [];
  const replayed = async function* () {
    yield lineOf('shown');
  };
  const { events, sink, signal } = startSink(t, { replay: replayed });
  const aggregator = await startAggregator(0, async ([message = ''], mode) => void sent.push([message, mode]));
  t.after(() => aggregator.server.close());
  events.push({ event: 'up', instance: { id: 'a', address: aggregator.address } });
  await waitFor(() => sent.length === 1, { what: 'the replay', deadlineMs: 60_000 });
  await sink.write(lineOf('shown'), { signal });
  await waitFor(() => sent.length === 2, { what: 'the line', deadlineMs: 60_000 });
  await sink.write({ ...lineOf('later'), timestamp: '2026-01-01T00:00:00.000000001Z' }, { signal });
  await waitFor(() => sent.length === 3, { what: 'the later line', deadlineMs: 60_000 });
  assert.deepEqual(sent, [
    ['shown', 'replay'],
    ['shown', 'again'],
    ['later', 'fresh'],
  ]);
});

test('a batch that is refused for good is dropped and told, and what follows goes on', async (t) => {
  const { events, sink, signal } = startSink(t);
  const aggregator = await startAggregator(0, async ([message]) => {
    if (message === 'bad') throw new FlynnError('invalid', 'no such line');
  });
  t.after(() => aggregator.server.close());
  events.push({ event: 'up', instance: { id: 'a', address: aggregator.address } });
  await sink.write(lineOf('bad'), { signal });
  await waitFor(() => sink.dropped === 1, { what: 'the bad line to be dropped', deadlineMs: 60_000 });
  await sink.write(lineOf('good'), { signal });
  await waitFor(() => aggregator.messages.includes('good'), { what: 'the good line', deadlineMs: 60_000 });
  assert.match(aggregator.messages[0] ?? '', /^1 lines were dropped/);
});

test('an agent that stops tells what still waits', async (t) => {
  const events = new AsyncQueue<Event>();
  const stopping = new AbortController();
  const sink = new AggregatorSink({
    source: { subscribe: () => events },
    access: { key: 'k' },
    async *replay() {},
    log: silentLogger(),
  });
  const running = sink.run(stopping.signal);
  const aggregator = await startAggregator();
  t.after(() => aggregator.server.close());
  events.push({ event: 'up', instance: { id: 'a', address: aggregator.address } });
  await sink.write(lineOf('first'), { signal: stopping.signal });
  await waitFor(() => aggregator.messages.length === 1, { what: 'the first line', deadlineMs: 60_000 });
  for (let at = 0; at < 1_500; at += 1) await sink.write(lineOf(`last ${at}`), { signal: stopping.signal });
  // It has two seconds, of a machine that does not stand still meanwhile.
  const timeout = AbortSignal.timeout.bind(AbortSignal);
  t.mock.method(AbortSignal, 'timeout', (ms: number) => timeout(15 * ms));
  stopping.abort();
  events.end();
  await running;
  // What was on its way is sent again: it is kept once.
  assert.equal(new Set(aggregator.messages).size, 1_501);
});

test('a line is confirmed once an instance has answered for it, though another broke off, and not before', async (t) => {
  const { events, sink, signal, stop } = startSink(t);
  const holding = Promise.withResolvers<void>();
  const arrived = Promise.withResolvers<void>();
  const held = await startAggregator(0, async () => {
    arrived.resolve();
    await holding.promise;
  });
  events.push({ event: 'up', instance: { id: 'held', address: held.address } });
  let confirmed = 0;
  await sink.write(lineOf('first'), { signal, onConfirmed: () => (confirmed += 1) });
  await arrived.promise;
  assert.equal(confirmed, 0, 'it is on its way');
  // The last there is goes: what it did not confirm the next one gets.
  events.push({ event: 'down', instance: { id: 'held', address: held.address } });
  const next = await startAggregator();
  events.push({ event: 'up', instance: { id: 'next', address: next.address } });
  await waitFor(() => confirmed === 1, { what: 'the confirmation', deadlineMs: 60_000 });
  assert.deepEqual(next.messages, ['first']);
  holding.resolve();
  await stop();
  assert.equal(confirmed, 1, 'once');
  await Promise.all([held.server.close(), next.server.close()]);
});

test('lines of a replay that are refused for good are left out, and the replay is over', async (t) => {
  let replays = 0;
  const replay = async function* () {
    replays += 1;
    yield lineOf('bad');
  };
  const { events, sink, signal } = startSink(t, { replay });
  const aggregator = await startAggregator(0, async (messages) => {
    if (messages.includes('bad')) throw new FlynnError('invalid', 'no such line');
  });
  t.after(() => aggregator.server.close());
  events.push({ event: 'up', instance: { id: 'a', address: aggregator.address } });
  for (const message of ['good', 'better']) {
    await sink.write(lineOf(message), { signal });
    await waitFor(() => aggregator.messages.includes(message), { what: message, deadlineMs: 60_000 });
  }
  assert.equal(replays, 1);
});

test('a part of a replay for which there is no room yet is sent again, and the replay goes on from there', async (t) => {
  let replays = 0;
  const replay = async function* () {
    replays += 1;
    for (let at = 0; at < 2_000; at += 1) yield lineOf(`earlier ${at}`);
  };
  const { events, sink, signal } = startSink(t, { replay });
  let tries = 0;
  const aggregator = await startAggregator(0, async (_messages, mode) => {
    if (mode !== 'replay') return;
    tries += 1;
    if (tries === 2) throw new FlynnError('exhausted', 'many hosts send again');
  });
  t.after(() => aggregator.server.close());
  events.push({ event: 'up', instance: { id: 'a', address: aggregator.address } });
  await sink.write(lineOf('new'), { signal });
  await waitFor(() => aggregator.messages.includes('new'), { what: 'the line', deadlineMs: 60_000 });
  assert.deepEqual([replays, tries], [1, 3]);
  assert.equal(aggregator.messages.filter((message) => message.startsWith('earlier')).length, 2_000);
});
