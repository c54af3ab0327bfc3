import assert from 'node:assert/strict';
import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { startServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { createLogClient } from './client.ts';
import type { ReadOptions } from './api.ts';
import { KnownLines } from './known-lines.ts';
import { logHandlers } from './server.ts';
import { openTestHistory, sent, timeAt } from './testing.ts';
import type { TestHistory } from './testing.ts';

type Limits = { maxFollowers?: number; silenceMs?: number; patienceMs?: number };

async function setUp(t: TestContext, options: { env?: TestHistory } & Limits = {}) {
  const env = options.env ?? (await openTestHistory());
  const { history } = env;
  const stopping = new AbortController();
  const { maxFollowers = 20, silenceMs = 60_000, patienceMs = 60_000 } = options;
  const server = await startServer({
    name: 'log aggregator',
    handlers: logHandlers(history, {
      log: silentLogger(),
      signal: stopping.signal,
      beatMs: 20,
      maxFollowers,
      silenceMs,
      patienceMs,
    }),
    key: 'k',
    host: '127.0.0.1',
    port: 0,
    log: silentLogger(),
  });
  const client = createLogClient({ baseUrl: server.url, key: 'k' });
  t.after(async () => {
    stopping.abort();
    await client.close();
    await server.close();
    await env[Symbol.asyncDispose]();
  });
  const read = (query: ReadOptions, app = 'app') => messages(client.lines(app, query));
  return { env, history, client, server, stopping, read };
}

async function messages(lines: AsyncIterable<{ message: string }>): Promise<string[]> {
  const found: string[] = [];
  for await (const { message } of lines) found.push(message);
  return found;
}

const bytesOf = (texts: readonly string[]): string => texts.join('');
const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, index) => from + index);

test('lines of several instances come out in the order they arrived, whatever their clocks say', async (t) => {
  const { client, read } = await setUp(t);
  assert.equal(await client.ingest(sent(1) + sent(3), { mode: 'fresh' }), 2);
  assert.equal(await client.ingest(sent(2, { hostId: 'h2', jobId: 'j2' }), { mode: 'fresh' }), 1);
  assert.deepEqual(await read({}), ['m1', 'm3', 'm2']);
  const [first] = await Array.fromAsync(client.lines('app', { lines: 1 }));
  assert.deepEqual([first?.processType, first?.jobId], ['web', 'j2']);
});

test('instances of unequal output are all there, once', async (t) => {
  const { client, read } = await setUp(t);
  const few = client.ingest(bytesOf(range(0, 5).map((at) => sent(at))), { mode: 'fresh' });
  const many = client.ingest(bytesOf(range(5, 15).map((at) => sent(at, { jobId: 'j2' }))), { mode: 'fresh' });
  assert.deepEqual(await Promise.all([few, many]), [5, 10]);
  const found = await read({});
  assert.deepEqual(new Set(found), new Set(range(0, 15).map((at) => `m${at}`)));
  assert.equal(found.length, 15);
});

test('lines that are sent again are there once, over a restart too; what is new among them is taken', async (t) => {
  const { client, env } = await setUp(t);
  await client.ingest(bytesOf(range(0, 10).map((at) => sent(at))), { mode: 'fresh' });
  assert.equal(await client.ingest(bytesOf(range(5, 12).map((at) => sent(at))), { mode: 'again' }), 2);
  const again = await setUp(t, { env: { ...env, history: await env.reopen() } });
  assert.equal(await again.client.ingest(bytesOf(range(0, 13).map((at) => sent(at))), { mode: 'replay' }), 1);
  assert.deepEqual(
    await again.read({}),
    range(0, 13).map((at) => `m${at}`),
  );
});

test('a replay does not bring back what was deleted to make room, but a line that never arrived is taken', async (t) => {
  const limits = { bytes: 3_000, segmentBytes: 500, totalBytes: 1e6 };
  const { client, read } = await setUp(t, { env: await openTestHistory({ limits }) });
  for (const at of range(100, 150)) await client.ingest(sent(at), { mode: 'fresh' });
  const [oldest = ''] = await read({ lines: 10_000 });
  assert.equal(await client.ingest(bytesOf(range(100, 150).map((at) => sent(at)))), 0);
  assert.equal((await read({ lines: 10_000 }))[0], oldest);
  assert.equal(await client.ingest(sent(5, { jobId: 'late' }), { mode: 'again' }), 1);
});

test('what is asked for is found: job, type, release, stream, time and text, and the newest that fit', async (t) => {
  const { client, read } = await setUp(t);
  const meta = { 'flynn.app': 'app', 'flynn.type': 'worker', 'flynn.release': 'r2' };
  const tricky = 'says "processType":"web" and é';
  await client.ingest(
    bytesOf([
      sent(1),
      sent(2, { jobId: 'j2', meta }),
      sent(3, { stream: 'stderr' }),
      sent(4, { message: tricky, meta }),
      sent(5),
    ]),
    { mode: 'fresh' },
  );
  assert.deepEqual(await read({ jobId: 'j2' }), ['m2']);
  assert.deepEqual(await read({ processType: 'web' }), ['m1', 'm3', 'm5']);
  assert.deepEqual(await read({ processType: 'web', lines: 2 }), ['m3', 'm5']);
  assert.deepEqual(await read({ releaseId: 'r2' }), ['m2', tricky]);
  assert.deepEqual(await read({ streams: 'stderr,init' }), ['m3']);
  assert.deepEqual(await read({ since: timeAt(3) }), ['m3', tricky, 'm5']);
  assert.deepEqual(await read({ since: timeAt(2), until: timeAt(4) }), ['m2', 'm3']);
  assert.deepEqual(await read({ search: '"processType":"web" and é' }), [tricky]);
  assert.deepEqual(await read({ search: 'hostId' }), []);
  assert.deepEqual(await read({ lines: 0 }), []);
  assert.deepEqual(await read({}, 'other'), []);
});

test('without a number the newest hundred come', async (t) => {
  const { client, read } = await setUp(t);
  await client.ingest(bytesOf(range(0, 250).map((at) => sent(at))), { mode: 'fresh' });
  assert.deepEqual(
    await read({}),
    range(150, 250).map((at) => `m${at}`),
  );
  assert.equal((await read({ lines: 10_000 })).length, 250);
});

test('a bad line costs only itself', async (t) => {
  const { client } = await setUp(t);
  const noApp = sent(5, { meta: {} });
  const local = sent(6, { timestamp: '2030-01-01T00:00:00+02:00' });
  const body = `${sent(1)}nonsense\n\n{"jobId":1}\n${noApp}${local}${sent(2)}`;
  assert.equal(await client.ingest(body), 2);
});

test('a follower sees what was there and then, of instances that start later too, what comes', async (t) => {
  const { client, history } = await setUp(t);
  await client.ingest(sent(1), { mode: 'fresh' });
  const leaving = new AbortController();
  const following = client.lines('app', { follow: true, lines: 5 }, { signal: leaving.signal });
  assert.equal((await following.next()).value?.message, 'm1');
  const agent = new PassThrough();
  const ingested = client.ingest(agent, { mode: 'fresh' });
  agent.write(sent(2).slice(0, 20));
  agent.write(sent(2).slice(20));
  assert.equal((await following.next()).value?.message, 'm2');
  agent.end(sent(3, { jobId: 'started-later', hostId: 'h2' }));
  assert.equal(await ingested, 2);
  const { value } = await following.next();
  assert.deepEqual([value?.message, value?.jobId], ['m3', 'started-later']);
  leaving.abort();
  await assert.rejects(following.next());
  await waitFor(() => history.followers === 0, { what: 'the reader to be forgotten', deadlineMs: 60_000 });
});

test('nothing is lost or told twice between what is kept and what is followed', async (t) => {
  const { client } = await setUp(t);
  const count = 3_000;
  const writing = (async () => {
    for (let at = 0; at < count; at += 10) {
      await client.ingest(bytesOf(range(at, at + 10).map((each) => sent(each))), { mode: 'fresh' });
    }
  })();
  const leaving = new AbortController();
  const readers = range(0, 4).map(async () => {
    const found: string[] = [];
    for await (const { message } of client.lines('app', { follow: true, lines: 10_000 }, { signal: leaving.signal })) {
      found.push(message);
      if (message === `m${count - 1}`) return found;
    }
    return found;
  });
  await writing;
  for (const found of await Promise.all(readers)) {
    assert.deepEqual(
      found,
      range(0, count).map((at) => `m${at}`),
    );
  }
  leaving.abort();
});

test('while one app floods, the line of another is kept and told after a few chunks of the flood at most', async (t) => {
  const { client, history } = await setUp(t);
  const flood = new PassThrough();
  const flooding = client.ingest(flood, { mode: 'fresh' });
  const burst = bytesOf(range(0, 1_000).map((at) => sent(at, { jobId: 'f', meta: { 'flynn.app': 'flood' } })));
  const stop = new AbortController();
  const pouring = (async () => {
    while (!stop.signal.aborted) if (!flood.write(burst)) await once(flood, 'drain');
    flood.end();
  })();
  const flooded = () => history.find('flood')?.end.line ?? 0;
  const leaving = new AbortController();
  const following = client.lines('quiet', { follow: true }, { signal: leaving.signal });
  // A chunk of 64 KiB is some 400 lines. What came upon a disk that stood still says nothing, however often that is.
  const between: number[] = [];
  for (let at = 0; between.filter((lines) => lines < 20_000).length < 3; at += 1) {
    assert.ok(at < 50, `${between.join(', ')} lines of the flood came before each`);
    const next = following.next();
    await waitFor(() => history.followers === 1 && flooded() > 0, { what: 'the flood', deadlineMs: 60_000 });
    const before = flooded();
    await client.ingest(sent(at, { meta: { 'flynn.app': 'quiet' } }), { mode: 'fresh' });
    assert.equal((await next).value?.message, `m${at}`);
    between.push(flooded() - before);
  }
  stop.abort();
  await pouring;
  await flooding;
  leaving.abort();
});

test('stopping ends followers at once, and tells agents to send again what they were sending', async (t) => {
  const { client, stopping, server } = await setUp(t);
  const agent = new PassThrough();
  const ingested = client.ingest(agent, { mode: 'fresh' });
  agent.write(sent(1));
  const following = client.lines('app', { follow: true });
  assert.equal((await following.next()).value?.message, 'm1');
  stopping.abort();
  await assert.rejects(ingested, (e) => hasCode(e, 'unavailable'));
  assert.deepEqual(await messages(following), []);
  // What is left would be cut after a while, which does not pass: nothing is.
  t.mock.timers.enable({ apis: ['setTimeout'] });
  await server.close();
  t.mock.timers.reset();
});

/** What a log ends with is not read until told so. */
function holdReading(t: TestContext) {
  const read = KnownLines.read.bind(KnownLines);
  const holding = Promise.withResolvers<void>();
  const reading = t.mock.method(KnownLines, 'read', async (...args: Parameters<typeof read>) => {
    await holding.promise;
    return read(...args);
  });
  t.after(() => holding.resolve());
  return { reads: () => reading.mock.callCount(), go: () => holding.resolve() };
}

test('hosts that all send again at once take turns, and what the log ends with is read for all of them once', async (t) => {
  const { client, read } = await setUp(t);
  await client.ingest(bytesOf(range(0, 1_000).map((at) => sent(at))), { mode: 'fresh' });
  const { reads, go } = holdReading(t);
  const again = range(0, 50).map((host) =>
    client.ingest(bytesOf([...range(0, 1_000), 1_000 + host].map((at) => sent(at))), { mode: 'replay' }),
  );
  await waitFor(() => reads() > 0, { what: 'the first of them', deadlineMs: 60_000 });
  assert.equal(await client.ingest(sent(2_000, { meta: { 'flynn.app': 'other' } }), { mode: 'fresh' }), 1);
  go();
  assert.deepEqual(
    await Promise.all(again),
    range(0, 50).map(() => 1),
  );
  assert.equal(reads(), 1);
  assert.equal((await read({ lines: 10_000 })).length, 1_050);
});

test('a host whose turn does not come is told so before it gives up, and takes no turn from another', async (t) => {
  const { client, read } = await setUp(t, { patienceMs: 1_000 });
  const { reads, go } = holdReading(t);
  const first = range(0, 2).map((at) => client.ingest(sent(at), { mode: 'again' }));
  await waitFor(() => reads() > 0, { what: 'the first of them', deadlineMs: 60_000 });
  // So much that the connection stands still until it is read: that its end is seen cannot be counted on.
  const large = bytesOf(range(0, 30).map((at) => sent(10 + at, { message: 'x'.repeat(10_000) })));
  const late = range(0, 5).map(() => client.ingest(large, { mode: 'replay' }));
  for (const one of late) {
    await assert.rejects(one, (error) => hasCode(error, 'exhausted') && /no turn came within 1 s/.test(error.message));
  }
  go();
  assert.deepEqual(await Promise.all(first), [1, 1]);
  assert.equal((await read({})).length, 2, 'nothing of theirs was taken');
  assert.equal(await client.ingest(large, { mode: 'replay' }), 30);
});

test('a host that falls silent while it sends again keeps no other from doing so', async (t) => {
  const { client } = await setUp(t, { silenceMs: 1_000 });
  const silent = range(0, 2).map((at) => {
    const body = new PassThrough();
    body.write(sent(at));
    return client.ingest(body, { mode: 'again' });
  });
  const ends = Promise.allSettled(silent);
  assert.equal(await client.ingest(sent(5), { mode: 'again' }), 1);
  assert.deepEqual(
    (await ends).map(({ status }) => status),
    ['rejected', 'rejected'],
  );
});

test('what nobody can mean is refused', async (t) => {
  const { client, server } = await setUp(t);
  await assert.rejects(client.read('app', { streams: 'stdout,sterr' }), (e) => hasCode(e, 'invalid'));
  await assert.rejects(client.read('app', { since: 'yesterday' }), (e) => hasCode(e, 'invalid'));
  await assert.rejects(client.read('app', { lines: 10_001 }), (e) => hasCode(e, 'invalid'));
  assert.equal((await fetch(`${server.url}/apps/app/lines`)).status, 401);
});

test('only so many may follow, and some places are for admins of the cluster', async (t) => {
  const { client } = await setUp(t, { maxFollowers: 9 });
  const leaving = new AbortController();
  const first = await client.read('app', { follow: true }, { signal: leaving.signal });
  first.on('error', () => {});
  await assert.rejects(client.read('app', { follow: true }), (e) => hasCode(e, 'exhausted'));
  for (const body of await Promise.all(
    range(0, 8).map(() => client.read('app', { follow: true, isForAdmin: true }, { signal: leaving.signal })),
  ))
    body.on('error', () => {});
  await assert.rejects(client.read('app', { follow: true, isForAdmin: true }), (e) => hasCode(e, 'exhausted'));
  leaving.abort();
  await waitFor(
    () =>
      client.read('app', { follow: true }).then(
        (body) => body.destroy(),
        () => undefined,
      ),
    { what: 'the place to be free', deadlineMs: 30_000 },
  );
});

test('a follower of a silent app hears something, so that proxies do not take the connection for dead', async (t) => {
  const { client, history } = await setUp(t);
  const leaving = new AbortController();
  const body = await client.read('app', { follow: true }, { signal: leaving.signal });
  let heard = '';
  body.on('data', (chunk: Buffer) => (heard += chunk.toString()));
  body.on('error', () => {});
  await waitFor(() => heard.length >= 3, { what: 'signs of life', deadlineMs: 30_000 });
  assert.match(heard, /^\n+$/);
  const lines = client.lines('app', { follow: true }, { signal: leaving.signal });
  const next = lines.next();
  await waitFor(() => history.followers === 2, { what: 'the second follower', deadlineMs: 30_000 });
  await client.ingest(sent(1));
  assert.equal((await next).value?.message, 'm1');
  leaving.abort();
});
