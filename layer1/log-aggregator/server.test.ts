import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { startServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import type { z } from 'zod';
import { LogBuffers } from './buffers.ts';
import { createLogClient } from './client.ts';
import type { sentLineSchema } from './ingest.ts';
import { logHandlers } from './server.ts';

type SentLine = z.output<typeof sentLineSchema>;

async function setUp(t: TestContext) {
  const buffers = new LogBuffers();
  const stopping = new AbortController();
  const server = await startServer({
    name: 'log aggregator',
    handlers: logHandlers(buffers, { log: silentLogger(), signal: stopping.signal, beatMs: 20 }),
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
  });
  return { buffers, client, server, stopping };
}

function sent(at: number, changes: Partial<SentLine> = {}): string {
  const line: SentLine = {
    jobId: 'j',
    hostId: 'h',
    stream: 'stdout',
    timestamp: `2030-01-01T00:00:00.${String(at).padStart(9, '0')}Z`,
    message: `m${at}`,
    meta: { 'flynn.app': 'app', 'flynn.type': 'web' },
    ...changes,
  };
  return `${JSON.stringify(line)}\n`;
}

async function messages(lines: AsyncIterable<{ message: string }>): Promise<string[]> {
  const found: string[] = [];
  for await (const { message } of lines) found.push(message);
  return found;
}

test('lines of several hosts come out merged, lines sent again are not there twice', async (t) => {
  const { client } = await setUp(t);
  assert.equal(await client.ingest(sent(1) + sent(3)), 2);
  assert.equal(await client.ingest(sent(2, { hostId: 'h2', jobId: 'j2' }) + sent(3)), 1);
  assert.deepEqual(await messages(client.lines('app', {})), ['m1', 'm2', 'm3']);
  assert.deepEqual(await messages(client.lines('app', { lines: 1, jobId: 'j' })), ['m3']);
  const [first] = await Array.fromAsync(client.lines('app', { lines: 1 }));
  assert.equal(first?.processType, 'web');
});

test('a bad line costs only itself', async (t) => {
  const { client } = await setUp(t);
  const noApp = sent(5, { meta: {} });
  const local = sent(6, { timestamp: '2030-01-01T00:00:00+02:00' });
  const body = `${sent(1)}nonsense\n\n{"jobId":1}\n${noApp}${local}${sent(2)}`;
  assert.equal(await client.ingest(body), 2);
});

test('a follower sees a line while the agent is still connected', async (t) => {
  const { client, buffers } = await setUp(t);
  const agent = new PassThrough();
  const ingested = client.ingest(agent);
  const leaving = new AbortController();
  const following = client.lines('app', { follow: true }, { signal: leaving.signal });
  const first = following.next();
  await waitFor(() => buffers.stats.readers === 1, { what: 'the follower', deadlineMs: 5000 });
  agent.write(sent(1).slice(0, 20));
  agent.write(sent(1).slice(20));
  assert.equal((await first).value?.message, 'm1');
  agent.end(sent(2));
  assert.equal(await ingested, 2);
  assert.equal((await following.next()).value?.message, 'm2');
  leaving.abort();
  await assert.rejects(following.next());
  await waitFor(() => buffers.stats.readers === 0, { what: 'the reader to be forgotten', deadlineMs: 5000 });
});

test('stopping answers agents and ends followers at once', async (t) => {
  const { client, buffers, stopping, server } = await setUp(t);
  const agent = new PassThrough();
  const ingested = client.ingest(agent);
  agent.write(sent(1));
  const following = messages(client.lines('app', { follow: true }));
  await waitFor(() => buffers.stats.readers === 1 && buffers.stats.apps === 1, { what: 'both', deadlineMs: 5000 });
  stopping.abort();
  assert.equal(await ingested, 1);
  assert.deepEqual(await following, ['m1']);
  const startedMs = performance.now();
  await server.close();
  assert.ok(performance.now() - startedMs < 3_000);
});

test('an unknown stream and a missing key are refused', async (t) => {
  const { client, server } = await setUp(t);
  await assert.rejects(client.read('app', { streams: 'stdout,sterr' }), (e) => hasCode(e, 'invalid'));
  assert.equal((await fetch(`${server.url}/apps/app/lines`)).status, 401);
});

test('a follower of a silent app hears something, so that proxies do not take the connection for dead', async (t) => {
  const { client, buffers } = await setUp(t);
  const leaving = new AbortController();
  const body = await client.read('app', { follow: true }, { signal: leaving.signal });
  let heard = '';
  body.on('data', (chunk: Buffer) => (heard += chunk.toString()));
  body.on('error', () => {});
  await waitFor(() => heard.length >= 3, { what: 'signs of life', deadlineMs: 5_000 });
  assert.match(heard, /^\n+$/);
  const lines = client.lines('app', { follow: true }, { signal: leaving.signal });
  const next = lines.next();
  await waitFor(() => buffers.stats.readers === 2, { what: 'the second follower', deadlineMs: 5_000 });
  await client.ingest(sent(1));
  assert.equal((await next).value?.message, 'm1');
  leaving.abort();
});
