import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HttpClient } from '@flynn/kit/http-client';
import { startServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import { routes } from './api.ts';
import { createMemoryRegistry } from './memory-registry.ts';
import { platformServices } from './parts.ts';
import { discoveryHandlers } from './server.ts';

const denied = { code: 'denied' };
const forged = '100.100.0.9:5432';

async function serving() {
  const log = silentLogger();
  const stop = new AbortController();
  const registry = createMemoryRegistry({ log });
  const handlers = discoveryHandlers(registry, { signal: stop.signal });
  const server = await startServer({ handlers, log, host: '127.0.0.1', port: 0, name: 'discovery' });
  const http = new HttpClient({ baseUrl: server.url, name: 'discovery' });
  return {
    registry,
    idsOf: (service: string) => registry.instances(service).map(({ id }) => id),
    claim: (service: string, instance = 'forged', attributes: Record<string, string> = {}) =>
      http.call(routes.register, {
        params: { service, instance },
        body: { address: forged, attributes, ttlSeconds: 10 },
      }),
    takeBack: (service: string, instance: string) => http.call(routes.deregister, { params: { service, instance } }),
    choose: (service: string, instance: string) =>
      http.call(routes.chooseLeader, { params: { service }, body: { by: 'manual', instance } }),
    forgetChoice: (service: string) => http.call(routes.chooseLeader, { params: { service }, body: { by: 'oldest' } }),
    lead: (service: string) => http.call(routes.leader, { params: { service } }),
    note: (service: string, data: string, leader?: string) =>
      http.call(routes.setMeta, { params: { service }, body: { data, ...(leader === undefined ? {} : { leader }) } }),
    removeNote: (service: string) => http.call(routes.removeMeta, { params: { service } }),
    async [Symbol.asyncDispose]() {
      stop.abort();
      await http.close();
      await server.close();
      await registry[Symbol.asyncDispose]();
    },
  };
}

type Serving = Awaited<ReturnType<typeof serving>>;

async function assertClosed({ claim, takeBack, choose, note }: Serving, service: string): Promise<void> {
  await assert.rejects(claim(service), denied);
  await assert.rejects(takeBack(service, 'h1-a'), denied);
  await assert.rejects(choose(service, 'forged'), denied);
  await assert.rejects(note(service, 'x'), denied);
  await assert.rejects(note(service, 'x', 'forged'), denied);
}

test('nobody claims over HTTP what host agents say of their jobs: a group, an identity', async () => {
  await using world = await serving();
  await assert.rejects(world.claim('db', 'forged', { 'flynn.group': 'shop' }), denied);
  await assert.rejects(world.claim('web', 'forged', { 'flynn.identity': 'controller' }), denied);
  assert.deepEqual(world.registry.services(), []);
  await world.claim('db');
  assert.deepEqual(world.idsOf('db'), ['forged']);
});

test('nobody changes a service of the platform over HTTP, whether or not any of it is there', async () => {
  await using world = await serving();
  for (const service of platformServices) await assertClosed(world, service);
  const attributes = { 'flynn.identity': 'controller', 'flynn.group': 'controller' };
  await world.registry.register({ service: 'controller', id: 'h1-a', address: '100.100.0.2:3000', attributes });
  await assertClosed(world, 'controller');
  assert.deepEqual(world.idsOf('controller'), ['h1-a']);
});

test('nor one of an app: not while its jobs are there, and not while none of them is', async () => {
  await using world = await serving();
  world.registry.vouchFor(['shop-web']);
  await assertClosed(world, 'shop-web');
  // An agent of a version before does not say whose services are its own to announce.
  const attributes = { 'flynn.group': 'blog', 'flynn.app': 'b1' };
  await world.registry.register({ service: 'blog-web', id: 'h1-a', address: '100.100.0.3:80', attributes });
  await assertClosed(world, 'blog-web');
  assert.deepEqual([world.idsOf('shop-web'), world.idsOf('blog-web')], [[], ['h1-a']]);
  assert.equal(world.registry.leader('blog-web')?.id, 'h1-a');
});

test('beside jobs of a workload without an app others may announce themselves, but not in their place', async () => {
  await using world = await serving();
  const address = '100.100.0.4:80';
  const attributes = { 'flynn.group': 'hello' };
  await world.registry.register({ service: 'hello', id: 'h1-a', address, attributes });
  await world.claim('hello', 'beside');
  await assert.rejects(world.claim('hello', 'h1-a'), denied);
  await assert.rejects(world.takeBack('hello', 'h1-a'), denied);
  await world.choose('hello', 'beside');
  await world.note('hello', 'x');
  assert.equal(world.registry.instances('hello')[0]?.address, address);
  assert.equal(world.registry.leader('hello')?.id, 'beside');
  await world.takeBack('hello', 'beside');
  assert.deepEqual(world.idsOf('hello'), ['h1-a']);
});

test('who is told that the leader that was chosen is away is told of no remedy that is closed to all', async () => {
  await using world = await serving();
  await world.registry.register({ service: 'shop-web', id: 'h1-a', address: '100.100.0.3:80' });
  await world.choose('shop-web', 'away');
  await assert.rejects(world.lead('shop-web'), { code: 'not_found', message: /choose another, or \{"by":"oldest"\}$/ });
  world.registry.vouchFor(['shop-web']);
  await assert.rejects(world.lead('shop-web'), { code: 'not_found', message: /: choose \{"by":"oldest"\}$/ });
  await world.forgetChoice('shop-web');
  assert.equal((await world.lead('shop-web')).id, 'h1-a');
});

test('what was announced over HTTP before an app had the name is renewed no more, and can be taken back', async () => {
  await using world = await serving();
  await world.claim('shop-web');
  await world.choose('shop-web', 'forged');
  await world.note('shop-web', 'x');
  world.registry.vouchFor(['shop-web']);
  await assert.rejects(world.claim('shop-web'), denied);
  await world.takeBack('shop-web', 'forged');
  await world.forgetChoice('shop-web');
  await world.removeNote('shop-web');
  assert.deepEqual(world.idsOf('shop-web'), []);
  assert.equal(world.registry.countLasting(), 0);
});

test('an asker announces 500 instances, with 16 KiB of attributes each, and renews them', async () => {
  await using world = await serving();
  await assert.rejects(
    world.claim('db', 'a', Object.fromEntries(['a', 'b', 'c', 'd', 'e'].map((name) => [name, 'x'.repeat(4_000)]))),
    { code: 'invalid', message: /may have 16384 bytes/ },
  );
  for (let number = 0; number < 500; number += 1) await world.claim(`service-${number}`);
  await assert.rejects(world.claim('one-more'), { code: 'exhausted', message: /500 instances/ });
  await world.claim('service-0');
  await world.takeBack('service-0', 'forged');
  await world.claim('one-more');
});

test('what stays until it is removed has bounds: 16 KiB of meta, and 500 services that have one or a chosen leader', async () => {
  await using world = await serving();
  await assert.rejects(world.note('db', 'x'.repeat(16_384)), { code: 'invalid', message: /the meta of db may have/ });
  for (let number = 0; number < 499; number += 1) await world.note(`service-${number}`, 'x');
  await world.choose('last', 'a');
  const full = { code: 'exhausted', message: /--remove/ };
  await assert.rejects(world.note('one-more', 'x'), full);
  await assert.rejects(world.choose('one-more', 'a'), full);
  await world.note('service-0', 'y');
  await world.note('last', 'x');
  await world.removeNote('service-0');
  await world.note('one-more', 'x');
});
