/** What routes are set to, as clients and backends see it. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { IncomingHttpHeaders, RequestListener } from 'node:http';
import { connect } from 'node:http2';
import { text } from 'node:stream/consumers';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { HttpClient } from '@flynn/kit/http-client';
import { startServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { routes } from '../api.ts';
import { statusHandlers, voiceOf } from '../server.ts';
import { ask, sayRaw, setUp, settled, startBackend } from '../testing.ts';
import type { World } from '../testing.ts';

const html = { accept: 'text/html' };

/** Changes the route of app.test, and waits until the router has it. */
async function change(world: World, changes: Parameters<World['plane']['setRoute']>[0]): Promise<void> {
  // Routes are told in order: when this one is there, so is the change before it.
  const marker = `m${performance.now()}.test`.replace(/\.(?=\d)/, '-');
  world.plane.setRoute({ domain: 'app.test', ...changes });
  world.plane.setRoute({ id: marker, domain: marker, service: 'nobody' });
  const isThere = async () => {
    const response = await ask(world.port, { headers: { host: marker } });
    response.resume();
    return response.headers['x-flynn-error'] !== 'unknown-host';
  };
  await waitFor(isThere, { what: 'the route', deadlineMs: 30_000, intervalMs: 5 });
  world.plane.removeRoute(marker);
}

async function backendUp(t: TestContext, world: World, listener: RequestListener) {
  const backend = await startBackend(t, listener);
  world.plane.up('web', backend.address);
  await settled(world.router, [...world.router.status().backends.map(({ address }) => address), backend.address]);
  return backend;
}

async function get(world: World, options: Parameters<typeof ask>[1] = {}) {
  const response = await ask(world.port, options);
  return { status: response.statusCode, headers: response.headers, body: await text(response) };
}

describe('a route', () => {
  test('in maintenance answers its page, but those it lets through', async (t) => {
    const world = await setUp(t);
    await backendUp(t, world, (_request, response) => response.end('app'));
    await change(world, { id: 'r1', http: { maintenance: {}, pages: { maintenance: '<h1>soon</h1>' } } });
    const page = await get(world, { headers: html });
    assert.deepEqual([page.status, page.headers['x-flynn-error'], page.body], [503, 'maintenance', '<h1>soon</h1>']);
    const json = await get(world, { headers: { accept: 'application/json' } });
    assert.equal(JSON.parse(json.body).code, 'maintenance');
    await change(world, { id: 'r1', http: { maintenance: { allow: ['127.0.0.0/8'] } } });
    assert.equal((await get(world)).body, 'app');
  });

  test('refuses a body that is too large, whether it says so or not', async (t) => {
    const world = await setUp(t);
    const backend = await backendUp(t, world, (request, response) => {
      request.resume().on('end', () => response.end('taken'));
    });
    await change(world, { id: 'r1', http: { limits: { bodyBytes: 1_000 } } });
    const said = await get(world, { method: 'POST', body: Buffer.alloc(1_001) });
    assert.deepEqual([said.status, said.headers['x-flynn-error']], [413, 'body-too-large']);
    assert.equal(backend.requests, 0);
    const head = 'POST / HTTP/1.1\r\nHost: app.test\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n';
    const unsaid = await sayRaw(world.port, head, `3e8\r\n${'x'.repeat(1_000)}\r\n1\r\nx\r\n0\r\n\r\n`);
    assert.match(unsaid, /^HTTP\/1\.1 413 [^]*x-flynn-error: body-too-large/i);
    assert.equal((await get(world, { method: 'POST', body: Buffer.alloc(1_000) })).body, 'taken');
  });

  test('tells who asks too often when to come back', async (t) => {
    const world = await setUp(t);
    await backendUp(t, world, (_request, response) => response.end('app'));
    await change(world, { id: 'r1', http: { limits: { requestsPerSecond: 0.01, burst: 2 } } });
    const answers = [await get(world), await get(world), await get(world)];
    assert.deepEqual(
      answers.map(({ status }) => status),
      [200, 200, 429],
    );
    const seconds = Number(answers[2]?.headers['retry-after']);
    assert.ok(seconds > 60 && seconds <= 100, `${seconds}`);
  });

  test('takes only so many requests at the same time, and again when one has ended', async (t) => {
    const world = await setUp(t);
    let finish = () => {};
    const backend = await backendUp(t, world, (_request, response) => {
      finish = () => response.end('late');
    });
    await change(world, { id: 'r1', http: { limits: { connections: 1 } } });
    const slow = get(world);
    await waitFor(() => backend.requests === 1, { what: 'the request', deadlineMs: 30_000, intervalMs: 5 });
    const full = await get(world);
    assert.deepEqual([full.status, full.headers['x-flynn-error']], [503, 'busy']);
    finish();
    assert.equal((await slow).body, 'late');
    const next = get(world);
    await waitFor(() => backend.requests === 2, { what: 'the next request', deadlineMs: 30_000, intervalMs: 5 });
    finish();
    assert.equal((await next).status, 200);
  });

  test('sends plain requests on to https and to the host that it is really at', async (t) => {
    const world = await setUp(t);
    await change(world, { id: 'r1', http: { https: { redirect: true }, canonicalHost: 'www.app.test' } });
    const { status, headers } = await get(world, { path: '/a?b=c', method: 'POST', body: Buffer.from('x') });
    assert.deepEqual([status, headers.location], [308, 'https://www.app.test/a?b=c']);
    assert.equal(headers['x-flynn-error'], undefined);
  });

  test('keeps a client at its backend until that has gone', async (t) => {
    const world = await setUp(t);
    const backends = await Promise.all(
      ['a', 'b', 'c'].map((name) => startBackend(t, (_request, response) => response.end(name))),
    );
    for (const { address } of backends) world.plane.up('web', address);
    await settled(
      world.router,
      backends.map(({ address }) => address),
    );
    await change(world, { id: 'r1', http: { sticky: true } });
    const first = await get(world);
    const [setCookie = ''] = first.headers['set-cookie'] ?? [];
    assert.match(setCookie, /^_flynn_backend=[\w-]{22}; Path=\/; HttpOnly; SameSite=Lax$/);
    const headers = { cookie: setCookie.split(';', 1)[0] ?? '' };
    for (let i = 0; i < 10; i += 1) {
      const next = await get(world, { headers });
      assert.equal(next.body, first.body);
      assert.equal(next.headers['set-cookie'], undefined);
    }
    const gone = backends['abc'.indexOf(first.body)];
    assert.ok(gone !== undefined);
    world.plane.down('web', gone.address);
    await settled(
      world.router,
      backends.filter((backend) => backend !== gone).map(({ address }) => address),
    );
    const moved = await get(world, { headers });
    assert.notEqual(moved.body, first.body);
    assert.ok(moved.headers['set-cookie'] !== undefined);
  });

  test('shares requests between releases, and follows the leader where it is told to', async (t) => {
    const world = await setUp(t);
    const [old, next] = await Promise.all(
      ['old', 'new'].map((name) => startBackend(t, (_request, response) => response.end(name))),
    );
    assert.ok(old !== undefined && next !== undefined);
    world.plane.up('web', old.address, 'r-old');
    world.plane.up('web', next.address, 'r-new');
    world.plane.lead('web', next.address);
    await settled(world.router, [old.address, next.address]);
    const bodies = async () =>
      new Set((await Promise.all(Array.from({ length: 20 }, () => get(world)))).map(({ body }) => body));
    const weights = [
      { release: 'r-old', weight: 1 },
      { release: 'r-new', weight: 0 },
    ];
    await change(world, { id: 'r1', http: { weights } });
    assert.deepEqual(await bodies(), new Set(['old']));
    await change(world, { id: 'r1', http: { leader: true } });
    assert.deepEqual(await bodies(), new Set(['new']));
    world.plane.lead('web', old.address);
    await waitFor(async () => (await get(world)).body === 'old', { what: 'the new leader', deadlineMs: 30_000 });
    assert.deepEqual(await bodies(), new Set(['old']));
  });

  test('answers with its own page for a backend that broke, or says nothing about its own failure', async (t) => {
    const world = await setUp(t);
    await backendUp(t, world, (request, response) => {
      if (request.url === '/broken') request.socket.destroy();
      else {
        response.statusCode = 500;
        response.end(request.url === '/empty' ? undefined : 'the app’s own words');
      }
    });
    await change(world, { id: 'r1', http: { pages: { '5xx': '<h1>sorry</h1>' } } });
    const broken = await get(world, { path: '/broken', headers: html });
    assert.deepEqual(
      [broken.status, broken.headers['x-flynn-error'], broken.body],
      [502, 'backend-broke', '<h1>sorry</h1>'],
    );
    const empty = await get(world, { path: '/empty', headers: html });
    assert.deepEqual([empty.status, empty.headers['x-flynn-error'], empty.body], [500, undefined, '<h1>sorry</h1>']);
    assert.equal((await get(world, { path: '/other', headers: html })).body, 'the app’s own words');
  });

  test('tells the backend where a request is from, and nothing that a client made up', async (t) => {
    const world = await setUp(t);
    let seen: IncomingHttpHeaders = {};
    let target: string | undefined;
    await backendUp(t, world, (request, response) => {
      seen = request.headers;
      target = request.url;
      response.end();
    });
    await change(world, { id: 'r1', path: '/api', http: { stripPath: true } });
    const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
    const headers = {
      'x-forwarded-proto': 'https',
      x_forwarded_for: '203.0.113.1',
      proxy: 'http://evil.test',
      traceparent,
    };
    await get(world, { path: '/x/../api/y?z', headers });
    assert.equal(target, '/y?z');
    assert.deepEqual(
      [seen['x-forwarded-for'], seen['x-forwarded-proto'], seen['x-forwarded-host'], seen.forwarded],
      ['127.0.0.1', 'http', 'app.test', 'for=127.0.0.1;host="app.test";proto=http'],
    );
    assert.deepEqual(
      [seen['traceparent'], seen['proxy'], seen['x_forwarded_for']],
      [traceparent, undefined, undefined],
    );
    assert.ok(Math.abs(Date.now() - Number(seen['x-request-start'])) < 60_000);
  });
});

test('routes that change, come and go under load lose no request', async (t) => {
  const world = await setUp(t);
  await backendUp(t, world, (request, response) => {
    request.resume().on('end', () => setImmediate(() => response.end('app')));
  });
  const over = new AbortController();
  const failures: unknown[] = [];
  let done = 0;
  const load = Array.from({ length: 8 }, async (_, i) => {
    const options = { path: '/x/y', ...(i % 2 === 0 ? {} : { method: 'POST', body: Buffer.from('x') }) };
    while (!over.signal.aborted) {
      const { status, body } = await get(world, options);
      if (status !== 200 || body !== 'app') failures.push([status, body]);
      done += 1;
    }
  });
  for (let round = 0; round < 60; round += 1) {
    const limits = round % 2 === 0 ? {} : { connections: 1_000 };
    world.plane.setRoute({ id: 'r1', domain: 'app.test', http: { sticky: round % 3 === 0, limits } });
    world.plane.setRoute({ id: 'r2', domain: 'app.test', path: '/x' });
    const before = done;
    await waitFor(() => done > before, { what: 'a request', deadlineMs: 60_000, intervalMs: 1 });
    world.plane.removeRoute('r2');
    if (round % 20 === 0) world.plane.forgetRouteQuietly('none');
  }
  over.abort();
  await Promise.all(load);
  assert.deepEqual(failures, []);
});

test('a backend that breaks every request costs a few of them, and is seen to be left alone', async (t) => {
  const world = await setUp(t);
  await backendUp(t, world, (_request, response) => response.end('well'));
  const ill = await backendUp(t, world, (request) => request.socket.destroy());
  let failures = 0;
  for (let i = 0; i < 60; i += 1) {
    // What may not be sent twice cannot be saved by another try.
    const { status } = await get(world, { method: 'POST', body: Buffer.from('x') });
    if (status === 502) failures += 1;
    else assert.equal(status, 200);
  }
  // Three at first; on a slow machine a probe every five seconds at most.
  assert.ok(failures >= 3 && failures <= 6, `${failures}`);
  const told = world.router.status().backends.find(({ address }) => address === ill.address);
  assert.equal(told?.isEjected, true);
});

test('over HTTP/2 a route is the same', async (t) => {
  const world = await setUp(t);
  let seen: IncomingHttpHeaders = {};
  await backendUp(t, world, (request, response) => {
    seen = request.headers;
    if (request.url === '/empty') response.statusCode = 500;
    response.end(request.url === '/empty' ? undefined : 'app');
  });
  await change(world, { id: 'r1', http: { sticky: true, pages: { '5xx': 'sorry' }, limits: { bodyBytes: 2 } } });
  const session = connect(`http://127.0.0.1:${world.port}`);
  t.after(() => session.destroy());
  const say = async (path: string, body?: string) => {
    const method = body === undefined ? 'GET' : 'POST';
    const stream = session.request({ ':authority': 'app.test:8080', ':path': path, ':method': method });
    stream.end(body);
    const [headers] = (await once(stream, 'response')) as [IncomingHttpHeaders & { ':status'?: number }];
    return { status: headers[':status'], headers, body: await text(stream) };
  };
  const first = await say('/');
  assert.deepEqual([first.status, first.body], [200, 'app']);
  assert.match(first.headers['set-cookie']?.[0] ?? '', /^_flynn_backend=/);
  assert.equal(seen['x-forwarded-host'], 'app.test:8080');
  assert.equal(seen.forwarded, 'for=127.0.0.1;host="app.test:8080";proto=http');
  const empty = await say('/empty');
  assert.deepEqual([empty.status, empty.body], [500, 'sorry']);
  const large = await say('/', '123');
  assert.deepEqual([large.status, large.headers['x-flynn-error']], [413, 'body-too-large']);
  assert.equal((await say('/', '12')).status, 200);
});

test('what was counted is there to be asked for, and for Prometheus', async (t) => {
  const world = await setUp(t);
  const server = await startServer({
    name: 'router',
    handlers: statusHandlers(voiceOf(world.router)),
    key: 'key',
    host: '127.0.0.1',
    port: 0,
    log: silentLogger(),
  });
  t.after(() => server.close());
  const client = new HttpClient({ baseUrl: `http://127.0.0.1:${server.port}`, name: 'the router', key: 'key' });
  t.after(() => client.close());
  await backendUp(t, world, (request, response) => {
    request.resume().on('end', () => response.end('four'));
  });
  await get(world, { method: 'POST', body: Buffer.from('123456') });
  await get(world);
  // The answer is out before it is counted.
  const stats = await waitFor(
    async () => {
      const stats = await client.call(routes.routeStats, { params: { route: 'r1' } });
      return stats.requests === 2 ? stats : undefined;
    },
    { what: 'two requests', deadlineMs: 30_000, intervalMs: 5 },
  );
  assert.deepEqual([stats.active, stats.answers['2xx'], stats.bytesIn, stats.bytesOut], [0, 2, 6, 8]);
  assert.equal(stats.backends[0]?.answers['2xx'], 2);
  assert.deepEqual(await client.call(routes.allStats, { query: { app: 'a' } }), [stats]);
  assert.deepEqual(await client.call(routes.allStats, { query: { app: 'b' } }), []);
  const { sinceMs, latency } = stats;
  const counts = { routes: 1, sinceMs, requests: 2, active: 0, clientErrors: 0, serverErrors: 0 };
  const { instance, atMs, apps } = await client.call(routes.appStats, {});
  assert.deepEqual(apps, [{ appId: 'a', ...counts, latency: latency.counts }]);
  assert.ok(instance !== '' && atMs > 0);
  assert.deepEqual(world.router.appCounts([stats.id, 'none']), { apps, unknown: ['none'] });
  await assert.rejects(client.call(routes.routeStats, { params: { route: 'none' } }), { code: 'not_found' });
  const response = await fetch(`http://127.0.0.1:${server.port}/metrics`, {
    headers: { authorization: `Basic ${Buffer.from(':key').toString('base64')}` },
  });
  assert.equal(response.headers.get('content-type'), 'text/plain; version=0.0.4; charset=utf-8');
  assert.match(await response.text(), /^flynn_router_route_requests_total\{route="r1",app="a",service="web"\} 2$/m);
});
