import assert from 'node:assert/strict';
import { test } from 'node:test';
import { apps } from '@flynn/controller/api';
import { generic } from '@flynn/controller/generic/api';
import { routing } from '@flynn/controller/routes/api';
import { startTestController, type TestController } from '@flynn/controller/testing';
import { FlynnError } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import { moved, withDomain } from './domain.ts';
import { addTwins, dropRoutes } from './routes.ts';
import { made } from '../cluster-fixture.ts';

const cluster = withDomain(made(), 'b.example.com');
const nobody = (): void => {};

async function placesOf({ client }: TestController, app: string): Promise<string[]> {
  const routes = await client.call(routing.list, { params: { app } });
  return routes.map(({ domain, path, port }) => (port === undefined ? `${domain}${path}` : `:${port}`)).sort();
}

test('every app is at the new domain with what it has at the former; done again it changes nothing', async () => {
  await using world = await startTestController();
  const { client } = world;
  await client.call(apps.create, { body: { name: 'shop' } });
  await client.call(apps.create, { body: { name: 'blog' } });
  const add = (app: string, body: object) => client.call(routing.create, { params: { app }, body });
  await add('shop', { domain: 'shop.flynn.localhost', path: '/api', service: 'shop-api', http: { sticky: true } });
  await add('shop', { domain: 'www.example.org' });
  await add('shop', { type: 'tcp', port: 3000 });
  // Somebody else's already.
  await add('blog', { domain: 'eu.shop.b.example.com' });
  await add('shop', { domain: 'eu.shop.flynn.localhost' });
  const lines: string[] = [];
  assert.match(await addTwins(client, cluster, (line) => lines.push(line)), /^3 routes added at b\.example\.com$/);
  assert.deepEqual(lines, ["eu.shop.b.example.com is app/blog's, and was left alone"]);
  const whole = [
    ':3000',
    'eu.shop.flynn.localhost/',
    'shop.b.example.com/',
    'shop.b.example.com/api',
    'shop.flynn.localhost/',
    'shop.flynn.localhost/api',
    'www.example.org/',
  ];
  assert.deepEqual(await placesOf(world, 'shop'), whole);
  const api = await client.call(routing.get, { params: { app: 'shop', route: 'shop.b.example.com/api' } });
  assert.deepEqual([api.service, api.http?.sticky], ['shop-api', true]);
  assert.match(await addTwins(client, cluster, nobody), /^0 routes added/);
  assert.deepEqual(await placesOf(world, 'shop'), whole);
});

test('an app that is written at the same moment has its route there all the same', async () => {
  await using world = await startTestController();
  const { client } = world;
  await client.call(apps.create, { body: { name: 'shop' } });
  let overtaken = 2;
  const busy: Pick<HttpClient, 'call'> = {
    call: async (endpoint, ...rest) => {
      if (endpoint.method === generic.apply.method && overtaken > 0) {
        overtaken -= 1;
        throw new FlynnError('conflict', 'it was changed meanwhile', { detail: { key: '/flynn/app/shop' } });
      }
      return client.call(endpoint, ...rest);
    },
  };
  assert.match(await addTwins(busy, cluster, nobody), /^1 route added/);
  assert.deepEqual(await placesOf(world, 'shop'), ['shop.b.example.com/', 'shop.flynn.localhost/']);
});

test('at a new domain the web page shares its host name with nobody either, and all else is there', async () => {
  await using world = await startTestController();
  const { client } = world;
  await client.call(apps.create, { body: { name: 'dashboard', isSystem: true } });
  await client.call(apps.create, { body: { name: 'shop' } });
  const below = { domain: 'dashboard.b.example.com', path: '/docs' };
  await client.call(routing.create, { params: { app: 'shop' }, body: below });
  const lines: string[] = [];
  assert.match(await addTwins(client, cluster, (line) => lines.push(line)), /^1 route added at b\.example\.com$/);
  assert.deepEqual(await placesOf(world, 'dashboard'), ['dashboard.flynn.localhost/']);
  assert.match(lines.join('\n'), /^dashboard\.b\.example\.com .*app\/dashboard .*shop has a route there.*left alone$/);
});

test('a former domain is dropped once nothing is there alone, and nothing else goes with it', async () => {
  await using world = await startTestController();
  const { client } = world;
  await client.call(apps.create, { body: { name: 'shop' } });
  await addTwins(client, cluster, nobody);
  const late = { domain: 'late.flynn.localhost' };
  await client.call(routing.create, { params: { app: 'shop' }, body: late });
  const all = await placesOf(world, 'shop');
  const now = moved(cluster);
  await assert.rejects(dropRoutes(client, now, 'flynn.localhost'), {
    code: 'conflict',
    message: /^late\.flynn\.localhost \(app\/shop\) would answer nowhere.*Nothing was changed$/,
  });
  assert.deepEqual(await placesOf(world, 'shop'), all);
  await client.call(routing.remove, { params: { app: 'shop', route: late.domain } });
  assert.equal(await dropRoutes(client, now, 'flynn.localhost'), '1 route removed');
  assert.deepEqual(await placesOf(world, 'shop'), ['shop.b.example.com/']);
  assert.equal(await dropRoutes(client, now, 'flynn.localhost'), '0 routes removed');
});
