import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import type { ErrorCode } from '@flynn/kit/errors';
import { leaseKey } from '@flynn/host-agent/network/lease';
import { handle } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import { startLoopback } from '@flynn/kit/loopback';
import { waitFor } from '@flynn/kit/retry';
import type { ServerEvent } from '@flynn/kit/routes';
import { feedRoute, routes as logRoutes } from '@flynn/log-aggregator/api';
import { followController } from '@flynn/log-aggregator/controller-feed';
import { Drains } from '@flynn/log-aggregator/drains';
import { encoded, openTestHistory } from '@flynn/log-aggregator/testing';
import { grants, tokens, users } from '../access/api.ts';
import { apps } from '../api.ts';
import { drains } from './api.ts';
import { addDrain } from './drains.ts';
import { createControllerClient } from '../client.ts';
import { drainType } from '../resources.ts';
import { startTestController } from '../testing.ts';

const secret = 'https://me:hunter2@logs.example.com/in?key=hunter2';

test('a drain is listed with how far it is and without its secrets, until it or its app is removed', async () => {
  const gaveUp = { count: 4, at: new Date().toISOString(), why: 'https://logs.example.com answered 400' };
  const status = { sent: 3, failed: 4, skipped: 1, waiting: 2, error: 'cannot reach it', gaveUp };
  const longAgo = { count: 1, at: new Date(Date.now() - 25 * 3_600_000).toISOString(), why: 'no room' };
  let id = '';
  await using aggregator = await startLoopback([
    handle(logRoutes.drains, async () => [{ id, ...status, lost: longAgo }]),
  ]);
  await using world = await startTestController({ logAggregatorUrl: aggregator.server.url });
  const { client } = world;
  const app = await client.call(apps.create, { body: { name: 'shop' } });
  const added = await client.call(drains.create, { body: { app: 'shop', url: secret } });
  id = added.id;
  assert.equal(added.appId, app.id);
  assert.equal(added.url, 'https://***@logs.example.com/in?key=***');
  const all = await client.call(drains.create, { body: { url: 'syslog+tls://logs.example.com' } });
  const listed = await client.call(drains.list, {});
  assert.deepEqual(listed, [{ ...added, progress: status }, all]);
  assert.doesNotMatch(JSON.stringify(listed), /hunter2/);
  await client.call(apps.create, { body: { name: 'other' } });
  assert.deepEqual(await client.call(drains.list, { query: { app: 'other' } }), [all]);
  await client.call(apps.remove, { params: { app: 'shop' } });
  assert.deepEqual(await client.call(drains.list, {}), [all]);
  await client.call(drains.remove, { params: { drain: all.id } });
  assert.deepEqual(await client.call(drains.list, {}), []);
  await assert.rejects(client.call(drains.remove, { params: { drain: all.id } }), (e) => hasCode(e, 'not_found'));
});

test('without a log aggregator drains are listed all the same', async () => {
  await using world = await startTestController();
  const added = await world.client.call(drains.create, { body: { url: 'syslog+tcp://logs.example.com:5514' } });
  assert.deepEqual(await world.client.call(drains.list, {}), [added]);
});

test('an address that leads nowhere, and a certificate that is none or of no use, are refused', async () => {
  await using world = await startTestController();
  const refused = async (body: { url: string; ca?: string; app?: string }, why: RegExp) => {
    await assert.rejects(
      world.client.call(drains.create, { body }),
      (error) => error instanceof FlynnError && why.test(error.message) && !error.message.includes('hunter2'),
    );
  };
  await refused({ url: 'ftp://me:hunter2@logs.example.com' }, /ftp is not known; write syslog\+tcp/);
  await refused({ url: secret, ca: 'nonsense' }, /no certificate/);
  await refused({ url: 'syslog+tcp://logs.example.com', ca: 'nonsense' }, /only where there is TLS/);
  await refused({ url: secret, app: 'missing' }, /no app "missing"/);
  assert.deepEqual(await world.client.call(drains.list, {}), []);
});

test('the feed tells the log aggregator all apps and drains, with their secrets, then what changes', async () => {
  await using world = await startTestController();
  const { client } = world;
  const lease = { hostId: 'host9', address: '192.0.2.7', subnet: '10.100.3.0/24', joinedAt: 1 };
  await world.store.transact({ then: [{ put: leaseKey('host9'), value: JSON.stringify(lease) }] });
  const app = await client.call(apps.create, { body: { name: 'shop' } });
  const drain = await client.call(drains.create, { body: { app: 'shop', url: secret } });
  const stop = new AbortController();
  const told: ServerEvent[] = [];
  for await (const event of client.events(feedRoute, {}, { signal: stop.signal })) {
    told.push(event);
    if (event.event === 'current') await client.call(apps.remove, { params: { app: 'shop' } });
    if (event.event === 'app-removed') stop.abort();
  }
  const before = told.slice(
    0,
    told.findIndex(({ event }) => event === 'current'),
  );
  assert.deepEqual(before, [
    { event: 'networks', data: { inside: ['127.0.0.1', '192.0.2.7', '10.100.3.0/24'] } },
    { event: 'app', data: { id: app.id, name: 'shop' } },
    { event: 'drain', data: { id: drain.id, appId: app.id, url: secret, createdAt: drain.createdAt } },
  ]);
  const removals = told.filter(({ event }) => event.endsWith('-removed'));
  assert.deepEqual(
    removals.map(({ event, data }) => [event, data]),
    [
      ['drain-removed', { id: drain.id }],
      ['app-removed', { id: app.id }],
    ],
  );
});

test('a host that joins is inside at once', async () => {
  await using world = await startTestController();
  const stop = new AbortController();
  const told: unknown[] = [];
  for await (const { event, data } of world.client.events(feedRoute, {}, { signal: stop.signal })) {
    if (event === 'networks') told.push(data);
    if (told.length === 2) stop.abort();
    if (event !== 'current') continue;
    const lease = { hostId: 'host9', address: '192.0.2.7', subnet: '10.100.3.0/24', joinedAt: 1 };
    await world.store.transact({ then: [{ put: leaseKey('host9'), value: JSON.stringify(lease) }] });
  }
  assert.deepEqual(told, [{ inside: ['127.0.0.1'] }, { inside: ['127.0.0.1', '192.0.2.7', '10.100.3.0/24'] }]);
});

test('the log aggregator follows: a drain begins and ends, and the log of a deleted app goes', async (t) => {
  await using world = await startTestController();
  await using env = await openTestHistory();
  const { history } = env;
  const log = silentLogger();
  const appNames = new Map<string, string>();
  const following = new AbortController();
  const drained = new Drains({ dir: env.dir, history, appName: (id) => appNames.get(id) ?? id, log });
  const controller = world.client;
  const running = followController({ controller, history, drains: drained, appNames, log, signal: following.signal });
  t.after(async () => {
    following.abort();
    await running;
    await drained.close();
  });
  let received = '';
  const server = createServer((socket) => socket.on('data', (chunk) => (received += chunk.toString())));
  server.listen(0, '127.0.0.1');
  t.after(() => server.close());
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;

  const { client } = world;
  const app = await client.call(apps.create, { body: { name: 'shop' } });
  const url = `syslog+tcp://127.0.0.1:${port}`;
  const drain = await client.call(drains.create, { body: { app: 'shop', url } });
  await waitFor(() => drained.status.length === 1, { what: 'the drain', deadlineMs: 60_000 });
  await history.append(app.id, encoded(0));
  await waitFor(() => received.includes(' shop web.j1 stdout - m0'), { what: 'the line', deadlineMs: 60_000 });
  await client.call(drains.remove, { params: { drain: drain.id } });
  await waitFor(() => drained.status.length === 0, { what: 'the end of the drain', deadlineMs: 60_000 });
  await client.call(apps.remove, { params: { app: 'shop' } });
  await waitFor(() => history.apps.length === 0, { what: 'the log to go', deadlineMs: 60_000 });
});

test('developers have drains of their apps, which lead out of the cluster only; those of others are not there for them', async () => {
  await using world = await startTestController();
  const { client } = world;
  for (const name of ['mine', 'theirs']) await client.call(apps.create, { body: { name } });
  const someone = async (name: string, role: 'viewer' | 'developer') => {
    await client.call(users.create, { body: { name } });
    await client.call(grants.put, { params: { app: 'mine', kind: 'user', name }, body: { role } });
    const { token } = await client.call(tokens.create, { body: { name: 'test', user: name } });
    return createControllerClient({ baseUrl: world.url, key: token });
  };
  await using developer = await someone('dave', 'developer');
  await using viewer = await someone('vera', 'viewer');
  const url = 'https://logs.example.com';
  const ofAll = await client.call(drains.create, { body: { url } });
  const ofTheirs = await client.call(drains.create, { body: { app: 'theirs', url } });
  const own = await developer.call(drains.create, { body: { app: 'mine', url } });
  assert.deepEqual(await developer.call(drains.list, {}), [own]);
  assert.deepEqual(await viewer.call(drains.list, {}), []);
  const refusals: [Promise<unknown>, ErrorCode][] = [
    [developer.call(drains.create, { body: { url } }), 'denied'],
    [developer.call(drains.create, { body: { app: 'theirs', url } }), 'not_found'],
    [developer.call(drains.list, { query: { app: 'theirs' } }), 'not_found'],
    [developer.call(drains.remove, { params: { drain: ofAll.id } }), 'not_found'],
    [developer.call(drains.remove, { params: { drain: ofTheirs.id } }), 'not_found'],
    [viewer.call(drains.create, { body: { app: 'mine', url } }), 'denied'],
    [viewer.call(drains.remove, { params: { drain: own.id } }), 'not_found'],
  ];
  await Promise.all(refusals.map(([asked, code]) => assert.rejects(asked, (error) => hasCode(error, code))));
  const kept = await world.deps.resources.list(drainType, {});
  const isOutside = new Map(kept.map(({ id, spec }) => [id, spec.isOutside]));
  assert.deepEqual(
    [ofAll, ofTheirs, own].map(({ id }) => isOutside.get(id)),
    [undefined, undefined, true],
  );
  await developer.call(drains.remove, { params: { drain: own.id } });
  assert.equal((await client.call(drains.list, {})).length, 2);
});

test('an app has so many drains at most, and the cluster as many as its admins want', async () => {
  await using world = await startTestController();
  const { client } = world;
  for (const name of ['many', 'other']) await client.call(apps.create, { body: { name } });
  const add = (app?: string) =>
    client.call(drains.create, { body: { url: 'https://logs.example.com', ...(app === undefined ? {} : { app }) } });
  const added = await Promise.all(Array.from({ length: 6 }, () => add('many')));
  // Each of them is counted by the others, however many ask at once.
  const drain = { url: 'https://logs.example.com', appId: added[0]?.appId, isOpen: true };
  const { signal } = new AbortController();
  await Promise.allSettled(Array.from({ length: 40 }, () => addDrain(world.deps, drain, signal)));
  const { length } = await client.call(drains.list, { query: { app: 'many' } });
  assert.ok(length <= 20, `${length} drains`);
  for (let at = length; at < 20; at += 1) await add('many');
  await assert.rejects(add('many'), (error) => hasCode(error, 'exhausted'));
  await add('other');
  await add();
  await client.call(drains.remove, { params: { drain: added[0]?.id ?? '' } });
  await add('many');
});
