import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { grants, tokens, users } from '../access/api.ts';
import { apps } from '../api.ts';
import { audit } from '../audit/api.ts';
import { createControllerClient } from '../client.ts';
import { generic } from '../generic/api.ts';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';
import { routing } from './api.ts';

const hash = `$scrypt$ln=15,r=8,p=1$${'s'.repeat(22)}$${'k'.repeat(43)}`;
const http = { access: { users: { ann: { hash } }, allow: ['10.0.0.0/8'] } };
const shown = { users: { ann: {} }, allow: ['10.0.0.0/8'], needs: 'all' };
const params = { app: 'shop' };
const place = 'shop.example.com';

let world: TestController;
before(async () => {
  world = await startTestController({ hosts: 0, hasWorker: false });
  await world.client.call(apps.create, { body: { name: 'shop' } });
  await world.client.call(routing.create, { params, body: { domain: place, http } });
});
after(async () => {
  await world[Symbol.asyncDispose]();
});

test('the hash of a password is told to routers, and by no answer about routes', async () => {
  const { client } = world;
  const one = await client.call(routing.get, { params: { ...params, route: place } });
  const changed = await client.call(routing.update, {
    params: { ...params, route: place },
    body: { http: { sticky: true } },
  });
  const closed = await client.call(routing.beginMaintenance, { params, body: {} });
  const open = await client.call(routing.endMaintenance, { params });
  const listed = await client.call(routing.list, { params });
  assert.deepEqual([one.http.access, one.http.maintenance], [shown, undefined]);
  for (const told of [one, changed, closed, open, listed]) assert.doesNotMatch(JSON.stringify(told), /kkkk|isGuard/);
  const stop = new AbortController();
  const told: unknown[] = [];
  for await (const { event, data } of client.events(routing.events, {}, { signal: stop.signal })) {
    if (event === 'set') told.push(data);
    else stop.abort();
  }
  const ours = told.find((data) => JSON.stringify(data).includes(place));
  assert.match(JSON.stringify(ours), /"isGuard":true.*"hash":"\$scrypt\$/);
});

test('files have the hash for who may read the secrets of the app, and can be put back by them', async () => {
  const { client } = world;
  const read = async (by: Pick<typeof client, 'call'>) => {
    const [route, app] = await Promise.all([
      by.call(generic.get, { params: { group: 'flynn', version: 'v1', kind: 'Route', name: `${place}/` } }),
      by.call(generic.get, { params: { group: 'flynn', version: 'v1', kind: 'App', name: 'shop' } }),
    ]);
    return { route, app };
  };
  const { route, app } = await read(client);
  for (const object of [route, app]) assert.match(JSON.stringify(object.spec), /"hash":"\$scrypt\$/);
  const kind = { group: 'flynn', version: 'v1', kind: 'Route' };
  const again = await client.call(generic.apply, { params: kind, body: { owner: 'app/shop', spec: route.spec } });
  assert.equal(again.outcome, 'unchanged');
  const whole = { ...kind, kind: 'App' };
  const same = await client.call(generic.apply, { params: whole, body: { name: 'shop', spec: app.spec } });
  assert.equal(same.outcome, 'unchanged');
  await client.call(users.create, { body: { name: 'vic' } });
  await client.call(grants.put, { params: { ...params, kind: 'user', name: 'vic' }, body: { role: 'viewer' } });
  const { token } = await client.call(tokens.create, { body: { name: 'x', user: 'vic' } });
  await using vic = createControllerClient({ baseUrl: world.url, key: token });
  const seen = await read(vic);
  assert.deepEqual(seen.route.spec['http'], {
    access: { users: { ann: {} }, allow: ['10.0.0.0/8'], needs: 'all' },
    sticky: true,
  });
  assert.doesNotMatch(JSON.stringify(seen), /scrypt/);
});

test('the audit trail has who may come in, and no hash', async () => {
  const entries = await waitFor(
    async () => {
      const all = await world.client.call(audit.list, { query: {} });
      const found = all.filter((entry) => JSON.stringify(entry).includes(place));
      return found.length > 0 ? found : undefined;
    },
    { what: 'the entry of the route', deadlineMs: 30_000 },
  );
  const text = JSON.stringify(entries);
  assert.match(text, /"ann":\{"hash":"\[hidden\]"\}/);
  assert.doesNotMatch(text, /scrypt/);
});

test('a review app lets in whom its app does, and a copy that is none everybody', async () => {
  const { client } = world;
  const parent = await client.call(apps.get, { params });
  await client.call(apps.create, { body: { name: 'pr-1', meta: { 'review.of': parent.id }, reviewMs: 3_600_000 } });
  const [route] = await client.call(routing.list, { params: { app: 'pr-1' } });
  assert.deepEqual(route?.http.access, shown);
  const kept = await client.call(generic.get, {
    params: { group: 'flynn', version: 'v1', kind: 'Route', name: `${route?.domain ?? ''}/` },
  });
  assert.match(JSON.stringify(kept.spec), /scrypt/);
  await client.call(apps.create, { body: { name: 'copy' } });
  const [open] = await client.call(routing.list, { params: { app: 'copy' } });
  assert.equal(open?.http.access, undefined);
});

test('the controller stays open to whoever would open it again', async () => {
  const { client } = world;
  await client.call(apps.create, { body: { name: 'controller', isSystem: true } });
  const [route] = await client.call(routing.list, { params: { app: 'controller' } });
  const change = client.call(routing.update, { params: { app: 'controller', route: route?.id ?? '' }, body: { http } });
  await assert.rejects(change, (error) => hasCode(error, 'denied'));
});
