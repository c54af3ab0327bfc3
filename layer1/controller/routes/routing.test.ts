import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import type { FlynnError } from '@flynn/kit/errors';
import type { ServerEvent } from '@flynn/kit/routes';
import { z } from 'zod';
import { apps } from '../api.ts';
import { routing } from './api.ts';
import { keys } from '../keys/api.ts';
import { type Route, routeSchema } from '../model.ts';
import { freePort, normalizeDomain, normalizePath } from './address.ts';
import { platformPorts } from './ports.ts';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';

let world: TestController;
before(async () => {
  world = await startTestController({ hosts: 1 });
  await world.client.call(apps.create, { body: { name: 'one' } });
  await world.client.call(apps.create, { body: { name: 'two' } });
});
after(async () => {
  await world[Symbol.asyncDispose]();
});

const add = (app: string, body: object) => world.client.call(routing.create, { params: { app }, body });
const isCode = (code: FlynnError['code'], pattern: RegExp) => (error: unknown) =>
  hasCode(error, code) && pattern.test(error.message);

test('host names and paths have one form', () => {
  assert.equal(normalizeDomain(' Shop.Example.COM. '), 'shop.example.com');
  assert.equal(normalizeDomain('*.example.com'), '*.example.com');
  assert.equal(normalizeDomain('*'), '*');
  assert.equal(normalizeDomain('[2001:DB8:0:0::1]'), '[2001:db8::1]');
  assert.equal(normalizePath('/a//b/'), '/a/b');
  assert.equal(normalizePath('/'), '/');
  for (const bad of [
    'http://x.com',
    '[::g]',
    '**',
    'x.com/path',
    'x.com:80',
    'a b',
    '',
    'x.*.com',
    '-x.com',
    `${'a'.repeat(64)}.com`,
  ]) {
    assert.throws(() => normalizeDomain(bad), /not a host name/, bad);
  }
  for (const bad of ['x', '/a b', '/?x']) assert.throws(() => normalizePath(bad), /not a path/);
  assert.equal(freePort([3000, 3001, 3003]), 3002);
  assert.equal(freePort([7000], { first: 7000, last: 7001 }), 7001);
  assert.throws(() => freePort(Array.from({ length: 501 }, (_, index) => 3000 + index)), /all ports/);
});

test('an http route is there once; another path of the same domain is another route', async () => {
  const route = await add('one', { domain: 'Shop.example.com' });
  assert.equal(route.domain, 'shop.example.com');
  assert.equal(route.service, 'one-web');
  await assert.rejects(
    add('two', { domain: 'shop.example.com' }),
    isCode('conflict', /already a route for shop\.example\.com/),
  );
  const deeper = await add('two', { domain: 'shop.example.com', path: '/blog/', service: 'two-blog' });
  assert.equal(deeper.path, '/blog');
  await assert.rejects(add('one', {}), isCode('invalid', /needs a domain/));
  await world.client.call(routing.remove, { params: { app: 'one', route: route.id } });
  await add('two', { domain: 'shop.example.com' });
  await assert.rejects(
    world.client.call(routing.remove, { params: { app: 'one', route: deeper.id } }),
    isCode('not_found', /one has no route/),
  );
});

test('tcp ports are found, also for several at once, and refused when taken', async () => {
  const ports = (
    await Promise.all([add('one', { type: 'tcp' }), add('two', { type: 'tcp' }), add('one', { type: 'tcp' })])
  ).map(({ port }) => port);
  assert.deepEqual(new Set(ports), new Set([3000, 3001, 3002]));
  assert.equal((await add('one', { type: 'tcp', port: 25 })).port, 25);
  await assert.rejects(add('two', { type: 'tcp', port: 25 }), isCode('conflict', /already a route on port 25/));
  await assert.rejects(add('two', { type: 'tcp', port: 80 }), isCode('conflict', /is for the router’s http/));
  for (const { port } of platformPorts) {
    await assert.rejects(add('two', { type: 'tcp', port }), isCode('conflict', /is for/), String(port));
  }
  await assert.rejects(add('two', { type: 'tcp', port: 70_000 }), isCode('invalid', /not a port/));
  await assert.rejects(add('two', { type: 'tcp', domain: 'x.com' }), isCode('invalid', /port only/));
});

async function readEvents(count: number, lastEventId?: string): Promise<ServerEvent[]> {
  const stop = new AbortController();
  const options = {
    signal: AbortSignal.any([stop.signal, AbortSignal.timeout(60_000)]),
    ...(lastEventId === undefined ? {} : { lastEventId }),
  };
  const seen: ServerEvent[] = [];
  for await (const event of world.client.events(routing.events, {}, options)) {
    seen.push(event);
    if (seen.length === count) stop.abort();
  }
  return seen;
}

test('a router gets all routes, the mark, then changes; it resumes without missing or repeating any', async () => {
  const all = [
    ...(await world.client.call(routing.list, { params: { app: 'one' } })),
    ...(await world.client.call(routing.list, { params: { app: 'two' } })),
  ];
  const first = await readEvents(all.length + 1);
  assert.equal(first.at(-1)?.event, 'current');
  assert.deepEqual(
    first
      .slice(0, -1)
      .map(({ data }) => (data as Route).id)
      .sort(),
    all.map(({ id }) => id).sort(),
  );
  const at = first.at(-1)?.id ?? '';
  const http = { sticky: true, limits: { bodyBytes: 5 } };
  const added = await add('one', { domain: 'new.example.com', http });
  await world.client.call(routing.remove, { params: { app: 'one', route: added.id } });
  const changes = await readEvents(3, at);
  assert.deepEqual(
    changes.map(({ event, id }) => (event === 'current' ? `${event} ${id}` : event)),
    [`current ${at}`, 'set', 'remove'],
  );
  assert.deepEqual(changes[2]?.data, { id: added.id });
  // Told without what goes without saying, and read as it is.
  const told = z.object({ http: z.unknown() }).parse(changes[1]?.data);
  assert.deepEqual([told.http, routeSchema.parse(changes[1]?.data)], [http, added]);
  const next = readEvents(2, changes[2]?.id);
  await add('one', { domain: 'next.example.com' });
  const [, last] = await next;
  assert.equal((last?.data as Route | undefined)?.domain, 'next.example.com');
});

test('a route that cannot be read costs routers none of the others, and is told to be there', async () => {
  const key = '/flynn/resource/route/later';
  const put = (value: string) => world.store.transact({ then: [{ put: key, value }] });
  await put('{"type":"route","version":99}');
  const counts = ['one', 'two'].map(async (app) => (await world.client.call(routing.list, { params: { app } })).length);
  const all = (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
  const events = await readEvents(all + 2);
  const at = events.at(-1);
  assert.deepEqual([at?.event, at?.id], ['current', undefined], 'who resumes would not be told by who can read it');
  assert.equal(events.filter(({ event }) => event === 'set').length, all);
  const untold = { event: 'unreadable', data: { id: 'later' } };
  assert.deepEqual(
    events.filter(({ event }) => event === 'unreadable').map(({ event, data }) => ({ event, data })),
    [untold],
  );
  const from = (await world.store.list(key)).revision;
  await put('{"type":"route","version":100}');
  const beside = await add('one', { domain: 'beside.example.com' });
  const live = await readEvents(3, String(from));
  assert.deepEqual(
    live.map(({ event, id }) => [event, id]),
    [
      ['current', String(from)],
      ['unreadable', undefined],
      ['set', undefined],
    ],
  );
  await world.store.transact({ then: [{ delete: key }] });
  const { revision } = await world.client.call(routing.update, {
    params: { app: 'one', route: beside.id },
    body: { http: { sticky: true } },
  });
  const [, , , removed, changed] = await readEvents(5, String(from));
  assert.deepEqual([removed?.event, changed?.event], ['remove', 'set']);
  assert.equal(changed?.id, String(revision), 'all there is was read');
});

test('a router that comes back after its history is gone is told to start anew', async () => {
  const { revision } = await world.store.list('/flynn/');
  await add('one', { domain: 'compacted.example.com' });
  await world.store.compact((await world.store.list('/flynn/')).revision);
  await assert.rejects(
    readEvents(1, String(Math.max(0, revision - 5))),
    isCode('conflict', /kept for half an hour.*begin again without/),
  );
  await assert.rejects(readEvents(1, '999999999'), isCode('conflict', /999999999 .*restored/));
  await assert.rejects(readEvents(1, 'nonsense'), isCode('invalid', /Last-Event-ID/));
});

test('a key is added once, found by its fingerprint, and taken back', async () => {
  const publicKey = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ2aZ0vQur8qIFeR7aCAUFg/SYF7aHg/RO4eWCiCJI6G me@home';
  const key = await world.client.call(keys.create, { body: { publicKey } });
  assert.deepEqual(await world.client.call(keys.create, { body: { publicKey } }), key);
  assert.equal((await world.client.call(keys.list, {})).length, 1);
  const { fingerprint } = key;
  assert.equal((await world.client.call(keys.get, { params: { fingerprint } })).comment, 'me@home');
  await world.client.call(keys.remove, { params: { fingerprint } });
  await assert.rejects(world.client.call(keys.get, { params: { fingerprint } }), isCode('not_found', /no key SHA256/));
  await assert.rejects(
    world.client.call(keys.get, { params: { fingerprint: 'abc' } }),
    isCode('invalid', /not a fingerprint/),
  );
  await assert.rejects(
    world.client.call(keys.create, { body: { publicKey: 'hello' } }),
    isCode('invalid', /starts with its type/),
  );
});
