/** Controller, router and whoever changes routes, all real: what is said to be in force is in force for the next request. */
import assert from 'node:assert/strict';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { serviceToken } from '@flynn/controller/access/service-token';
import { apps } from '@flynn/controller/api';
import { routing } from '@flynn/controller/routes/api';
import { startTestController } from '@flynn/controller/testing';
import { createDiscoveryClient } from '@flynn/discovery/client';
import { hasCode } from '@flynn/kit/errors';
import { HttpClient } from '@flynn/kit/http-client';
import { startServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { defaultTimeouts, startRouter } from './router.ts';
import { statusHandlers, voiceOf } from './server.ts';
import { ControlPlane, ask, startBackend } from './testing.ts';

const log = silentLogger();

async function openCluster(t: TestContext, routerCount: number) {
  const addresses: string[] = [];
  const world = await startTestController({ hosts: 0, hasWorker: false, routers: () => addresses });
  const plane = new ControlPlane();
  const registry = await startServer({ name: 'plane', handlers: plane.handlers, host: '127.0.0.1', port: 0, log });
  const backend = await startBackend(t, (_request, response) => response.end('ok'));
  plane.up('shop-web', backend.address);
  const closing: (() => Promise<unknown>)[] = [];
  const ports: number[] = [];
  for (let index = 0; index < routerCount; index += 1) {
    const key = serviceToken(world.userKey, 'router');
    const controller = new HttpClient({ baseUrl: world.url, key, name: 'the controller' });
    const discovery = createDiscoveryClient({ url: registry.url });
    const router = await startRouter({
      controller,
      // A machine that stands still for seconds is no reason to begin without backends, or to take them for dead.
      discovery: {
        async openServiceSet(...asked) {
          const set = await discovery.openServiceSet(...asked);
          await set.ready;
          return set;
        },
      },
      timeouts: { ...defaultTimeouts, dialMs: 20_000 },
      clusterKey: world.key,
      host: '127.0.0.1',
      httpPort: 0,
      log,
    });
    const handlers = statusHandlers(voiceOf(router));
    const status = await startServer({ name: 'router', handlers, key: world.key, host: '127.0.0.1', port: 0, log });
    addresses.push(`127.0.0.1:${status.port}`);
    ports.push(router.httpPort);
    closing.push(
      () => status.close(),
      () => router.stop({ drainMs: 0 }),
      () => controller.close(),
      () => discovery.close(),
    );
  }
  t.after(async () => {
    for (const close of closing) await close();
    await world[Symbol.asyncDispose]();
    await registry.close();
  });
  await world.client.call(apps.create, { body: { name: 'shop' } });
  const params = { app: 'shop' };
  const reach = async (id: string, revision?: number): Promise<void> => {
    const body = { routes: [revision === undefined ? { id } : { id, revision }], waitMs: 20_000 };
    assert.deepEqual(await world.client.call(routing.reach, { params, body }), { missing: [] });
  };
  const statuses = (host: string) =>
    Promise.all(
      ports.map(async (port) => {
        const answer = await ask(port, { headers: { host } });
        await text(answer);
        return answer.statusCode;
      }),
    );
  return { world, params, reach, statuses, addresses };
}

test('a call that waits for the routers is answered when all have the change, or says which do not', async (t) => {
  const { world, params, statuses, addresses } = await openCluster(t, 2);
  const query = { wait: 20_000 };
  const domain = 'wait.example.com';
  const added = await world.client.call(routing.create, { params, body: { domain }, query });
  assert.deepEqual(await statuses(domain), [200, 200]);
  const where = { ...params, route: added.id };
  await world.client.call(routing.update, { params: where, body: { service: 'shop-nobody' }, query });
  assert.deepEqual(await statuses(domain), [503, 503]);
  await world.client.call(routing.update, { params: where, body: { service: 'shop-web' }, query });
  await world.client.call(routing.beginMaintenance, { params, body: { allow: [] }, query });
  assert.deepEqual(await statuses(domain), [503, 503]);
  await world.client.call(routing.endMaintenance, { params, query });
  assert.deepEqual(await statuses(domain), [200, 200]);
  // Nobody listens there.
  addresses.push('127.0.0.1:1');
  const late = world.client.call(routing.update, {
    params: where,
    body: { http: { sticky: true } },
    query: { wait: 300 },
  });
  await assert.rejects(late, (error: unknown) => {
    assert.ok(hasCode(error, 'timeout'), String(error));
    assert.match(error.message, /the change is made, but not all routers said within 300 ms .*127\.0\.0\.1:1/);
    assert.ok(Array.isArray(error.detail['missing']) && error.detail['missing'].includes('127.0.0.1:1'));
    return true;
  });
  assert.equal((await world.client.call(routing.get, { params: where })).http.sticky, true);
  addresses.pop();
  await world.client.call(routing.remove, { params: where, query });
  assert.deepEqual(await statuses(domain), [404, 404]);
});

test('a route that every router said it has is answered by every router, and by none once they said it is gone', async (t) => {
  const { world, params, reach, statuses } = await openCluster(t, 3);
  await Promise.all(
    Array.from({ length: 20 }, async (_, index) => {
      const domain = `r${index}.example.com`;
      const added = await world.client.call(routing.create, { params, body: { domain } });
      await reach(added.id, added.revision);
      assert.deepEqual(await statuses(domain), [200, 200, 200], domain);
      const where = { ...params, route: added.id };
      const moved = await world.client.call(routing.update, { params: where, body: { service: 'shop-nobody' } });
      await reach(moved.id, moved.revision);
      assert.deepEqual(await statuses(domain), [503, 503, 503], domain);
      await world.client.call(routing.remove, { params: where });
      await reach(added.id);
      assert.deepEqual(await statuses(domain), [404, 404, 404], domain);
    }),
  );
});

test('maintenance and limits are in force when routers say so, and what was asked is counted for all of them', async (t) => {
  const { world, params, reach, statuses } = await openCluster(t, 2);
  const domain = 'shop.flynn.localhost';
  const settle = async (routes: readonly { id: string; revision?: number | undefined }[]) => {
    for (const { id, revision } of routes) await reach(id, revision);
  };
  await settle(await world.client.call(routing.list, { params }));
  assert.deepEqual(await statuses(domain), [200, 200]);
  await settle(await world.client.call(routing.beginMaintenance, { params, body: { page: '<p>soon</p>' } }));
  assert.deepEqual(await statuses(domain), [503, 503]);
  await settle(await world.client.call(routing.beginMaintenance, { params, body: { allow: ['127.0.0.0/8'] } }));
  assert.deepEqual(await statuses(domain), [200, 200]);
  await settle(await world.client.call(routing.endMaintenance, { params }));
  assert.deepEqual(await statuses(domain), [200, 200]);
  // A request is counted when its end is known to the router, which may be after the client's.
  const stats = await waitFor(
    async () => {
      const now = await world.client.call(routing.stats, { params, query: { route: domain } });
      return now.routes[0]?.requests === 8 && now;
    },
    { what: 'all requests to be counted', deadlineMs: 60_000, intervalMs: 20 },
  );
  assert.deepEqual([stats.routers, stats.silent], [2, []]);
  const [one, ...others] = stats.routes;
  assert.deepEqual([one?.requests, one?.answers['2xx'], one?.answers['5xx'], others], [8, 6, 2, []]);
  assert.deepEqual(one?.refusals, { maintenance: 2 });
});
