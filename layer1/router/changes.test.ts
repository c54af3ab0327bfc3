import assert from 'node:assert/strict';
import { Agent } from 'node:http';
import type { RequestListener } from 'node:http';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { ask, setUp, settled, startBackend } from './testing.ts';

test('backends that come and go under load lose no request', async (t) => {
  const { plane, router, port } = await setUp(t);
  const listener: RequestListener = (request, response) => {
    request.resume();
    request.on('end', () => setTimeout(() => response.end('ok'), 5));
  };
  const first = await startBackend(t, listener);
  plane.up('web', first.address);
  await settled(router, [first.address]);
  const agent = new Agent({ keepAlive: true });
  t.after(() => agent.destroy());
  const failures: unknown[] = [];
  const over = new AbortController();
  let done = 0;
  const load = Array.from({ length: 16 }, async (_, i) => {
    while (!over.signal.aborted) {
      const response = await ask(port, i % 2 ? { agent } : { agent, method: 'POST', body: Buffer.from('x') });
      const body = await text(response);
      if (response.statusCode !== 200 || body !== 'ok') failures.push(response.statusCode);
      done += 1;
    }
  });
  let current = first;
  for (let round = 0; round < 6; round += 1) {
    const next = await startBackend(t, listener);
    plane.up('web', next.address);
    await settled(router, [current.address, next.address]);
    const before = done;
    await waitFor(() => done > before + 50, { what: 'some requests', deadlineMs: 30_000, intervalMs: 5 });
    plane.down('web', current.address);
    await settled(router, [next.address]);
    const old = current;
    // The app is told to stop only now, as a deployment does it; nothing may still be using it soon after.
    await waitFor(() => old.sockets.size === 0, {
      what: 'the old backend to be let go',
      deadlineMs: 30_000,
      intervalMs: 5,
    });
    await old.close();
    current = next;
  }
  over.abort();
  await Promise.all(load);
  assert.deepEqual(failures, []);
  assert.equal(router.status().counters.dialFailures, 0);
});

test('a backend that left answers what it has and gets nothing new', async (t) => {
  const { plane, router, port } = await setUp(t);
  let finish = () => {};
  const old = await startBackend(t, (_request, response) => {
    response.write('begun ');
    finish = () => response.end('ended');
  });
  const fresh = await startBackend(t, (_request, response) => response.end('fresh'));
  plane.up('web', old.address);
  await settled(router, [old.address]);
  const slow = await ask(port);
  plane.up('web', fresh.address);
  plane.down('web', old.address);
  await settled(router, [fresh.address]);
  for (let i = 0; i < 10; i += 1) assert.equal(await text(await ask(port)), 'fresh');
  assert.deepEqual(
    router
      .status()
      .backends.filter((backend) => backend.isLeaving)
      .map((backend) => [backend.address, backend.inFlight]),
    [[old.address, 1]],
  );
  finish();
  assert.equal(await text(slow), 'begun ended');
  await waitFor(() => old.sockets.size === 0, { what: 'the connection to be closed', deadlineMs: 30_000 });
  assert.equal(router.status().backends.length, 1);
});

test('routes come, change their service and go while requests are answered', async (t) => {
  const { plane, router, port } = await setUp(t);
  const one = await startBackend(t, (_request, response) => response.end('one'));
  const two = await startBackend(t, (_request, response) => response.end('two'));
  plane.up('web', one.address);
  plane.up('api', two.address);
  await settled(router, [one.address]);
  plane.setRoute({ id: 'r2', domain: 'app.test', path: '/api', service: 'api' });
  await settled(router, [one.address, two.address]);
  assert.equal(await text(await ask(port, { path: '/api/x' })), 'two');
  assert.equal(await text(await ask(port, { path: '/apix' })), 'one');
  // While the connection to the controller is down the routes stay; what went meanwhile is gone after it.
  plane.forgetRouteQuietly('r2');
  await settled(router, [one.address]);
  assert.equal(await text(await ask(port, { path: '/api/x' })), 'one');
  plane.setRoute({ id: 'r1', domain: 'app.test', service: 'api' });
  await settled(router, [two.address]);
  assert.equal(await text(await ask(port)), 'two');
  plane.removeRoute('r1');
  await settled(router, []);
  assert.equal((await ask(port)).statusCode, 404);
});

test('a route that a controller of another version cannot read stays as it was, until it is gone', async (t) => {
  const { plane, router, port } = await setUp(t);
  const one = await startBackend(t, (_request, response) => response.end('one'));
  const two = await startBackend(t, (_request, response) => response.end('two'));
  plane.up('web', one.address);
  plane.up('api', two.address);
  plane.setRoute({ id: 'r2', domain: 'app.test', path: '/api', service: 'api' });
  await settled(router, [one.address, two.address]);
  plane.cannotReadAnyMore('r1');
  plane.forgetRouteQuietly('r2');
  await settled(router, [one.address]);
  assert.equal(await text(await ask(port)), 'one');
  plane.removeRoute('r1');
  await settled(router, []);
});

test('stopping answers what is under way and what still comes over open connections', async (t) => {
  const { plane, router, port } = await setUp(t);
  let finish = () => {};
  const backend = await startBackend(t, (request, response) => {
    if (request.url === '/slow') finish = () => response.end('slow');
    else response.end('quick');
  });
  plane.up('web', backend.address);
  await settled(router, [backend.address]);
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  t.after(() => agent.destroy());
  assert.equal(await text(await ask(port, { agent })), 'quick');
  const slow = ask(port, { path: '/slow' });
  await waitFor(() => backend.requests === 2, { what: 'the slow request', deadlineMs: 30_000 });
  const stopped = router.stop({ drainMs: 10_000 });
  const last = await ask(port, { agent });
  assert.equal(last.headers.connection, 'close');
  assert.equal(await text(last), 'quick');
  await assert.rejects(ask(port), /ECONNREFUSED/);
  finish();
  assert.equal(await text(await slow), 'slow');
  await stopped;
});
