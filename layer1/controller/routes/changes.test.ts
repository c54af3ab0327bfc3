import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import type { FlynnError } from '@flynn/kit/errors';
import { apps, releases } from '../api.ts';
import { routing } from './api.ts';
import type { Route } from '../model.ts';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';

let world: TestController;
before(async () => {
  world = await startTestController({ hosts: 0, hasWorker: false });
  for (const name of ['shop', 'blog']) await world.client.call(apps.create, { body: { name } });
});
after(async () => {
  await world[Symbol.asyncDispose]();
});

type Body = Parameters<typeof world.client.call<typeof routing.create>>[1]['body'];
type Change = Parameters<typeof world.client.call<typeof routing.update>>[1]['body'];
const params = { app: 'shop' };
const add = (body: Body, app = 'shop') => world.client.call(routing.create, { params: { app }, body });
const change = (route: string, body: Change, headers = {}) =>
  world.client.call(routing.update, { params: { ...params, route }, body }, { headers });
const get = (route: string) => world.client.call(routing.get, { params: { ...params, route } });
const isCode = (code: FlynnError['code'], pattern: RegExp) => (error: unknown) =>
  hasCode(error, code) && pattern.test(error.message);

test('a route is made with settings, changed, and told as it is; what does not change stays', async () => {
  const made = await add({
    domain: 'a.example.com',
    path: '/api',
    http: { stripPath: true, limits: { bodyBytes: 9 } },
  });
  assert.equal(made.http.stripPath, true);
  const changed = await change(made.id, { http: { sticky: true, limits: { bodyBytes: null } }, service: 'shop-api' });
  assert.equal(changed.service, 'shop-api');
  assert.deepEqual([changed.http.stripPath, changed.http.sticky, changed.http.limits], [true, true, {}]);
  assert.ok((changed.revision ?? 0) > (made.revision ?? 0));
  assert.deepEqual(await get('a.example.com/api'), changed);
  assert.deepEqual(await change('a.example.com/api', {}), changed);
  const root = await add({ domain: 'b.example.com' });
  assert.equal((await get('b.example.com')).id, root.id);
  await assert.rejects(change(root.id, { http: { stripPath: true } }), isCode('invalid', /http\.stripPath: the route/));
  await assert.rejects(change(root.id, { tcp: { idleMs: 5 } }), isCode('invalid', /for tcp routes/));
  await assert.rejects(add({ domain: 'c.example.com', tcp: {} }), isCode('invalid', /for tcp routes/));
  await assert.rejects(add({ type: 'tcp', http: {} }), isCode('invalid', /for http routes/));
  await assert.rejects(change('nosuch', {}), isCode('not_found', /shop has no route nosuch/));
  const foreign = await add({ domain: 'd.example.com' }, 'blog');
  await assert.rejects(change(foreign.id, {}), isCode('not_found', /shop has no route/));
});

test('a field that is unknown is named', async () => {
  const send = async (body: object) => {
    const answer = await fetch(`${world.url}/apps/shop/routes`, {
      method: 'POST',
      headers: { authorization: `Bearer ${world.userKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ domain: 'e.example.com', ...body }),
    });
    return `${answer.status} ${await answer.text()}`;
  };
  assert.match(await send({ htp: { sticky: true } }), /^400 .*htp/);
  assert.match(await send({ http: { limits: { bodybytes: 3 } } }), /^400 .*bodybytes/);
  assert.match(await send({ http: { weights: [{ release: 'v1', weight: 1, color: 2 }] } }), /^400 .*color/);
});

test('a change for a revision that is no more is refused, by field and by header; nothing is lost when many change at once', async () => {
  const made = await add({ domain: 'f.example.com' });
  const revision = made.revision ?? 0;
  const next = await change(made.id, { http: { sticky: true }, revision });
  await assert.rejects(change(made.id, { http: { sticky: false }, revision }), isCode('conflict', /not at revision/));
  const late = change(made.id, { http: { sticky: false } }, { 'if-match': `"${revision}"` });
  await assert.rejects(late, isCode('conflict', /not at revision/));
  await assert.rejects(change(made.id, {}, { 'if-match': 'W/"x"' }), isCode('invalid', /If-Match/));
  const last = await change(made.id, { http: { sticky: false } }, { 'if-match': String(next.revision) });
  assert.equal(last.http.sticky, false);
  await Promise.all([
    change(made.id, { http: { limits: { bodyBytes: 1 } } }),
    change(made.id, { http: { limits: { connections: 2 } } }),
    change(made.id, { http: { timeouts: { idleMs: 3 } } }),
  ]);
  const { limits, timeouts } = (await get(made.id)).http;
  assert.deepEqual([limits, timeouts], [{ bodyBytes: 1, connections: 2 }, { idleMs: 3 }]);
});

test('weights are of releases of the app, by version or id', async () => {
  const made = await add({ domain: 'g.example.com' });
  const one = await world.client.call(releases.create, { params, body: {} });
  const two = await world.client.call(releases.create, { params, body: {} });
  const other = await world.client.call(releases.create, { params: { app: 'blog' }, body: {} });
  const weights = [`v${one.version}`, two.id].map((release, index) => ({ release, weight: index + 1 }));
  const changed = await change(made.id, { http: { weights, releaseAffinity: true } });
  assert.deepEqual(changed.http.weights, [
    { release: one.id, weight: 1 },
    { release: two.id, weight: 2 },
  ]);
  for (const release of ['v99', other.id, 'nosuch', 'v', '/']) {
    await assert.rejects(
      change(made.id, { http: { weights: [{ release, weight: 1 }] } }),
      isCode('invalid', /shop has no release/),
      release,
    );
  }
});

test('a port is one route’s, or shared by server names, never both', async () => {
  const sni = (port: number, serverName: string, app?: string) => add({ type: 'tcp', port, tcp: { serverName } }, app);
  await sni(6000, 'One.example.com');
  const two = await sni(6000, 'two.example.com', 'blog');
  assert.equal(two.tcp.serverName, 'two.example.com');
  await assert.rejects(sni(6000, 'one.example.com', 'blog'), isCode('conflict', /has a route for one\.example\.com/));
  await assert.rejects(add({ type: 'tcp', port: 6000 }), isCode('conflict', /already a route on port 6000/));
  await add({ type: 'tcp', port: 6001 });
  await assert.rejects(sni(6001, 'one.example.com'), isCode('conflict', /one for all names/));
  await assert.rejects(add({ type: 'tcp', tcp: { serverName: 'x.test' } }), isCode('invalid', /at which port/));
  for (let port = 6100; port < 6110; port += 1) {
    await Promise.allSettled([
      add({ type: 'tcp', port }),
      sni(port, 'one.example.com'),
      sni(port, 'two.example.com', 'blog'),
    ]);
    const there = [...(await list('shop')), ...(await list('blog'))].filter((route) => route.port === port);
    const kinds = new Set(there.map(({ tcp }) => tcp.serverName === undefined));
    assert.ok(kinds.size <= 1, JSON.stringify(there));
  }
});

const list = (app: string): Promise<Route[]> => world.client.call(routing.list, { params: { app } });

test('a route does not move', async () => {
  const made = await add({ type: 'tcp', port: 6200, tcp: { serverName: 'a.test' } });
  await assert.rejects(
    change(made.id, { tcp: { serverName: 'b.test' } }),
    isCode('invalid', /stays at tcp:6200\/a\.test/),
  );
  assert.equal((await change('tcp:6200/a.test', { tcp: { idleMs: 60_000 } })).tcp.idleMs, 60_000);
});

test('an app goes into maintenance with all its http routes and comes back with what else they were set to', async () => {
  const before = await list('shop');
  const body = { allow: ['203.0.113.0/24'], page: '<h1>soon</h1>' };
  const closed = await world.client.call(routing.beginMaintenance, { params, body });
  assert.ok(closed.length > 2 && closed.every(({ type }) => type === 'http'));
  for (const { http } of closed) {
    assert.deepEqual(http.maintenance, { allow: ['203.0.113.0/24'] });
    assert.equal(http.pages['maintenance'], '<h1>soon</h1>');
  }
  assert.deepEqual(await world.client.call(routing.beginMaintenance, { params, body }), closed);
  const [first] = closed;
  await change(first?.id ?? '', { http: { maintenance: null } });
  await world.client.call(routing.endMaintenance, { params });
  const settings = (routes: readonly Route[]) =>
    routes.map(({ id, http: { pages: _pages, ...http } }) => ({ id, http }));
  assert.deepEqual(settings(await list('shop')), settings(before));
  await assert.rejects(
    world.client.call(routing.beginMaintenance, { params, body: { allow: ['nonsense'] } }),
    isCode('invalid', /"nonsense" is no address/),
  );
});

test('the controller cannot be shut away from whoever would open it again', async () => {
  await world.client.call(apps.create, { body: { name: 'controller', isSystem: true } });
  const off = world.client.call(routing.beginMaintenance, { params: { app: 'controller' }, body: {} });
  await assert.rejects(off, isCode('denied', /could not be asked to end it/));
});
