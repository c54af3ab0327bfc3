import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { apps, releases } from '../api.ts';
import { routing } from '../routes/api.ts';
import { createControllerClient } from '../client.ts';
import { generic } from '../generic/api.ts';
import { startTestController } from '../testing.ts';
import { grants, tokens, users } from './api.ts';

test('an app takes neither the names nor the requests of another', async () => {
  await using world = await startTestController({ formerDomains: ['former.example.com'] });
  const { client: root } = world;
  const port = (name: string) => ({ web: { ports: [{ port: 80, service: { name } }] } });
  await world.deployApp('controller', port('blobs'), { isSystem: true });
  const roles = (...names: string[]) => {
    const check = { type: 'http' as const, path: '/primary', status: 200 };
    return { web: { ports: [{ port: 80, roles: names.map((name) => ({ name, check })) }] } };
  };
  await world.deployApp('blobstore', roles('lead'), { isSystem: true });
  await world.deployApp('blog', port('blog-db'));
  await world.deployApp('shop', port('special'));
  await root.call(users.create, { body: { name: 'ann' } });
  const params = { app: 'shop' };
  await root.call(grants.put, { params: { ...params, kind: 'user', name: 'ann' }, body: { role: 'developer' } });
  const { token } = await root.call(tokens.create, { body: { name: 'x', user: 'ann' } });
  await using ann = createControllerClient({ baseUrl: world.url, key: token });

  for (const name of ['blobs', 'controller']) {
    const release = { params, body: { processes: port(name) } };
    for (const client of [ann, root]) {
      await assert.rejects(client.call(releases.create, release), (error) => hasCode(error, 'denied'), name);
    }
  }
  await root.call(releases.create, { params: { app: 'controller' }, body: { processes: port('blobs') } });
  // What a job is called at times is a name like any other.
  const called = (...names: string[]) => ({ params, body: { processes: roles(...names) } });
  for (const name of ['blobs', 'controller', 'lead']) {
    await assert.rejects(ann.call(releases.create, called(name)), (error) => hasCode(error, 'denied'), name);
  }
  const twice = [called('shop-db', 'shop-db'), called('shop-web')];
  for (const release of twice) {
    await assert.rejects(ann.call(releases.create, release), (error) => hasCode(error, 'invalid'));
  }

  const add = (body: { domain: string; path?: string; service?: string }) => ann.call(routing.create, { params, body });
  const isDenied = (error: unknown) => hasCode(error, 'denied');
  await assert.rejects(add({ domain: 'controller.flynn.localhost', path: '/apps' }), isDenied);
  await assert.rejects(add({ domain: 'Blog.flynn.localhost.', path: '/login' }), isDenied);
  await assert.rejects(add({ domain: 'own.example.com', service: 'blog-db' }), isDenied);
  await assert.rejects(add({ domain: 'own.example.com', service: 'blobs' }), isDenied);
  await root.call(apps.create, { body: { name: 'shop-api' } });
  await assert.rejects(add({ domain: 'own.example.com', service: 'shop-api-web' }), isDenied);
  await assert.rejects(add({ domain: '*' }), isDenied);
  await assert.rejects(add({ domain: '*.flynn.localhost' }), isDenied);
  await assert.rejects(add({ domain: '*.former.example.com' }), isDenied);
  await root.call(routing.create, { params: { app: 'blog' }, body: { domain: '*.blog.example.com' } });
  await assert.rejects(add({ domain: 'x.blog.example.com' }), isDenied);
  await assert.rejects(add({ domain: '*.blog.example.com', path: '/x' }), isDenied);
  const byName = { type: 'tcp' as const, port: 7000, tcp: { serverName: 'blog.flynn.localhost' } };
  await assert.rejects(ann.call(routing.create, { params, body: byName }), isDenied);
  const atPort = (port: number, serverName: string) => ({ type: 'tcp' as const, port, tcp: { serverName } });
  const wildcard = atPort(7001, '*.db.example.com');
  await root.call(routing.create, { params: { app: 'blog' }, body: wildcard });
  await assert.rejects(ann.call(routing.create, { params, body: atPort(7001, 'a.db.example.com') }), isDenied);
  await ann.call(routing.create, { params, body: atPort(7002, 'a.db.example.com') });
  await ann.call(routing.create, { params, body: atPort(7001, 'own.example.com') });
  for (const { port, tcp } of [byName, atPort(7001, 'b.db.example.com')]) {
    const routes = [{ port, serverName: tcp.serverName, service: 'shop-web' }];
    const file = { params: { group: 'flynn', version: 'v1', kind: 'App' }, body: { name: 'shop', spec: { routes } } };
    await assert.rejects(ann.call(generic.apply, file), isDenied, `as a file: ${tcp.serverName}`);
  }
  await root.call(routing.create, { params: { app: 'blog' }, body: { domain: '*' } });
  await add({ domain: 'own.example.com' });
  await add({ domain: 'own.example.com', path: '/deeper', service: 'special' });
  await add({ domain: 'shop.flynn.localhost', path: '/more', service: 'shop-worker-web' });
  await root.call(grants.put, { params: { app: 'blog', kind: 'user', name: 'ann' }, body: { role: 'developer' } });
  await add({ domain: 'blog.flynn.localhost', path: '/shop' });
  await add({ domain: 'x.blog.example.com' });
  await ann.call(routing.create, { params, body: byName });
  const own = (await ann.call(routing.list, { params })).find(({ domain }) => domain === 'own.example.com');
  const change = { params: { ...params, route: own?.id ?? '' }, body: { service: 'blobs' } };
  await assert.rejects(ann.call(routing.update, change), isDenied);
  await root.call(routing.create, { params, body: { domain: 'controller.flynn.localhost', path: '/shop' } });
});
