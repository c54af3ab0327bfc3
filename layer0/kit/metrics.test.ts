import assert from 'node:assert/strict';
import { test } from 'node:test';
import { z } from 'zod';
import { hasCode } from './errors.ts';
import { HttpClient } from './http-client.ts';
import { handle, startServer } from './http-server.ts';
import { silentLogger } from './log.ts';
import { metricsHandler, metricsRoute, serveMetrics } from './metrics-server.ts';
import { metricsToken } from './metrics-token.ts';
import { Metrics, processMetrics } from './metrics.ts';
import { defineRoute } from './routes.ts';

async function read(baseUrl: string, key?: string): Promise<string> {
  await using client = new HttpClient({ baseUrl, name: 'the server', ...(key === undefined ? {} : { key }) });
  const chunks: Buffer[] = [];
  for await (const chunk of await client.stream(metricsRoute, {})) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

test('counters, histograms and gauges are written as Prometheus reads them', async () => {
  const metrics = new Metrics();
  const pushes = metrics.counter('pushes_total', 'Pushes.');
  const seconds = metrics.histogram('push_seconds', 'How long.', [1, 10]);
  metrics.gauge('waiting', 'Who waits.', async () => [{ labels: { app: 'a"b\\c\n' }, value: 2 }]);
  metrics.gauge('nothing', 'Left out.', () => []);
  pushes.add({ app: 'a' });
  pushes.add({ app: 'a' }, 2);
  for (const value of [0.5, 1, 5, 60]) seconds.observe({}, value);
  assert.equal(
    await metrics.text(),
    [
      '# HELP pushes_total Pushes.',
      '# TYPE pushes_total counter',
      'pushes_total{app="a"} 3',
      '# HELP push_seconds How long.',
      '# TYPE push_seconds histogram',
      'push_seconds_bucket{le="1"} 2',
      'push_seconds_bucket{le="10"} 3',
      'push_seconds_bucket{le="+Inf"} 4',
      'push_seconds_sum 66.5',
      'push_seconds_count 4',
      '# HELP waiting Who waits.',
      '# TYPE waiting gauge',
      String.raw`waiting{app="a\"b\\c\n"} 2`,
      '',
    ].join('\n'),
  );
});

test('beyond a thousand sets of labels the rest is one', async () => {
  const metrics = new Metrics();
  const counter = metrics.counter('asked_total', 'What was asked for.');
  for (let at = 0; at < 1_500; at += 1) counter.add({ path: `/${at}` });
  const text = await metrics.text();
  assert.equal(text.split('\n').filter((line) => line.startsWith('asked_total{')).length, 1_001);
  assert.match(text, /asked_total\{path="other"\} 500/);
});

test('a process tells its memory, its time and its files', async () => {
  const metrics = new Metrics();
  processMetrics(metrics);
  const text = await metrics.text();
  for (const name of [
    'process_resident_memory_bytes',
    'process_cpu_seconds_total',
    'process_open_fds',
    'process_max_fds',
  ]) {
    assert.match(text, new RegExp(`^${name} \\d[\\d.e+-]*$`, 'm'));
  }
});

test('requests are counted by route, not by path; figures are for who has the key, or the token that opens nothing else', async () => {
  const metrics = new Metrics();
  const hello = defineRoute({ method: 'GET', path: '/hello/:name', response: z.string(), summary: 'greets' });
  const handlers = [handle(hello, async ({ params }) => params.name), metricsHandler(metrics)];
  const log = silentLogger();
  await using server = await startServer({ name: 's', port: 0, host: '127.0.0.1', key: 'k', handlers, metrics, log });
  await using client = new HttpClient({ baseUrl: server.url, name: 's', key: 'k' });
  await client.call(hello, { params: { name: 'a' } });
  await client.call(hello, { params: { name: 'b' } });
  await assert.rejects(read(server.url, 'wrong'), (error) => hasCode(error, 'unauthenticated'));
  await assert.rejects(read(server.url), (error) => hasCode(error, 'unauthenticated'));
  const text = await read(server.url, metricsToken('k'));
  assert.match(text, /^flynn_http_requests_total\{method="GET",route="\/hello\/:name",status="200"\} 2$/m);
  assert.match(text, /^flynn_http_requests_total\{method="GET",route="\/metrics",status="401"\} 2$/m);
  assert.match(text, /^flynn_http_request_duration_seconds_count\{method="GET",route="\/hello\/:name"\} 2$/m);
  await using guest = new HttpClient({ baseUrl: server.url, name: 's', key: metricsToken('k') });
  await assert.rejects(guest.call(hello, { params: { name: 'a' } }), (error) => hasCode(error, 'unauthenticated'));
  const { signal } = new AbortController();
  await using other = await serveMetrics(metrics, { name: 'figures', key: 'k', log, signal, port: 0 });
  assert.match(await read(other?.url ?? '', 'k'), /flynn_http_requests_total/);
  const taken = { name: 'figures', key: 'k', log, signal, port: other?.port ?? 0 };
  assert.equal(await serveMetrics(metrics, taken), undefined);
});
