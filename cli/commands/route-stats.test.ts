import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { routing } from '@flynn/controller/routes/api';
import { latencyBoundsMs } from '@flynn/controller/routes/latency';
import { routerStats } from '@flynn/controller/routes/stats';
import type { RouteStats } from '@flynn/controller/routes/stats';
import { handle, startServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { statsSince } from '../routes/figures.ts';
import { z } from 'zod';
import { openDeskWithController } from '../testing.ts';
import { runCli } from '../program.ts';

const readingSchema = z.object({ seconds: z.number(), routes: z.array(z.object({ requests: z.number() })) });

function statsOf(id: string, appId: string, requests: number): RouteStats {
  const counts = [...latencyBoundsMs.map(() => 0), 0];
  counts[3] = requests;
  return {
    id,
    appId,
    service: 'shop-web',
    sinceMs: 1,
    requests,
    active: 1,
    answers: { '1xx': 0, '2xx': requests, '3xx': 0, '4xx': 0, '5xx': 0 },
    refusals: {},
    clientsGone: 0,
    brokenOff: 0,
    retries: 0,
    bytesIn: 10,
    bytesOut: 2_048 * requests,
    latency: { counts, sumMs: 7 * requests },
    backends: [],
  };
}

/** A router that counted this. */
async function startRouter(t: TestContext, read: () => RouteStats[]): Promise<string> {
  const options = { key: 'test-cluster-key', host: '127.0.0.1', port: 0, log: silentLogger() };
  const server = await startServer({
    name: 'router',
    handlers: [handle(routerStats.all, async () => read())],
    ...options,
  });
  t.after(() => server.close());
  return `127.0.0.1:${server.port}`;
}

test('figures are of all routers together; those that do not answer are told, and other apps’ are not', async (t) => {
  const told = { stats: [] as RouteStats[] };
  const routers = [await startRouter(t, () => told.stats), await startRouter(t, () => told.stats)];
  await using env = await openDeskWithController({ routers: () => routers });
  await env.desk.run(['create', 'shop', '-r', '']);
  const run = (...argv: string[]) => env.desk.run(['-a', 'shop', 'route', 'stats', ...argv]);
  assert.equal((await run()).stdout, 'no request yet (2 routers)\n');
  const [route] = await env.controller.client.call(routing.list, { params: { app: 'shop' } });
  told.stats = [statsOf(route?.id ?? '', route?.appId ?? '', 40), statsOf('other', 'other', 5)];
  const all = await run();
  const [header, row, ...more] = all.stdout
    .trimEnd()
    .split('\n')
    .map((line) => line.split(/ +/));
  assert.deepEqual(header?.slice(0, 4), ['ROUTE', 'REQUESTS', 'ACTIVE', '2XX']);
  assert.deepEqual(row?.slice(0, 4), ['http://shop.flynn.localhost', '80', '2', '80']);
  assert.deepEqual(row?.slice(7, 11), ['7.5ms', '9.9ms', '20B', '160.0KB']);
  assert.deepEqual([more, all.stderr], [[], '']);
  assert.match((await run('nosuch')).stderr, /shop has no route nosuch/);
  routers.push('127.0.0.1:1');
  const some = await run('shop.flynn.localhost');
  assert.match(some.stderr, /1 router could not be asked and is missing here\n {2}127\.0\.0\.1:1: /);
  assert.match(some.stdout, /http:\/\/shop\.flynn\.localhost +80/);
});

test('with -w it is told what came in each interval, until it is interrupted', async (t) => {
  const told = { id: '', appId: '', requests: 1_000 };
  const address = await startRouter(t, () => [statsOf(told.id, told.appId, (told.requests += 10))]);
  await using env = await openDeskWithController({ routers: () => [address] });
  await env.desk.run(['create', 'shop', '-r', '']);
  const [route] = await env.controller.client.call(routing.list, { params: { app: 'shop' } });
  Object.assign(told, { id: route?.id, appId: route?.appId });
  const io = env.desk.io();
  const argv = ['-a', 'shop', 'route', 'stats', '-w', '--interval', '100ms', '--json'];
  const running = runCli(argv, io);
  await waitFor(() => io.stdout.text.split('"seconds"').length > 2, { what: 'two readings', deadlineMs: 60_000 });
  assert.equal(io.signal('SIGINT'), 1);
  assert.equal(await running, 0, io.stderr.text);
  const readings = io.stdout.text
    .trimEnd()
    .split('\n')
    .map((line): unknown => JSON.parse(line));
  const requests = z
    .array(readingSchema)
    .parse(readings)
    .map(({ routes: [one] }) => one?.requests);
  assert.ok(requests.length >= 2 && requests.every((count) => count === 10), requests.join());
});

test('a router that began anew counts from its start', () => {
  const after = statsOf('r', 'a', 7);
  assert.deepEqual(statsSince(statsOf('r', 'a', 100), after), after);
  assert.deepEqual(statsSince(undefined, after), after);
  const since = statsSince(statsOf('r', 'a', 3), after);
  assert.deepEqual([since.requests, since.answers['2xx'], since.bytesOut, since.latency.sumMs], [4, 4, 8_192, 28]);
});
