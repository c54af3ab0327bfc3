import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { HttpClient } from '@flynn/kit/http-client';
import { waitFor } from '@flynn/kit/retry';
import { grants, tokens, users } from '../access/api.ts';
import { apps, formations, jobs, releases } from '../api.ts';
import { createControllerClient } from '../client.ts';
import { generic } from '../generic/api.ts';
import { resources } from '../providers/api.ts';
import { isCode } from '../providers/provided-fixture.ts';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';
import { datastores } from './api.ts';
import { makeTestDatastore, withAppliances } from './datastore-fixture.ts';
import type { TestDatastore } from './datastore-fixture.ts';

let world: TestController;
let own: TestDatastore;
before(async () => {
  world = await startTestController(withAppliances);
  await world.deployApp('shop', { web: {} });
  await world.deployApp('blog', { web: {} });
  own = await makeTestDatastore(world, { app: 'shop' });
});
after(async () => {
  await world?.[Symbol.asyncDispose]();
});

type Role = 'viewer' | 'developer' | 'admin';

async function somebody(name: string, roles: Record<string, Role>, more: { role?: Role; only?: string[] } = {}) {
  const { role, only } = more;
  await world.client.call(users.create, { body: { name, ...(role === undefined ? {} : { role }) } });
  for (const [app, given] of Object.entries(roles)) {
    await world.client.call(grants.put, { params: { app, kind: 'user', name }, body: { role: given } });
  }
  const body = { name: 'test', user: name, ...(only === undefined ? {} : { apps: only }) };
  const { token } = await world.client.call(tokens.create, { body });
  return createControllerClient({ baseUrl: world.url, key: token });
}

const params = { app: 'shop-postgres' };
const look = (client: HttpClient) => client.call(apps.get, { params });
const change = (client: HttpClient) =>
  client.call(apps.update, { params, body: { metaChange: { note: 'x' }, deployTimeoutMs: 60_000 } });
const scale = async (client: HttpClient) => {
  const { releaseId = '' } = await look(client);
  return client.call(formations.put, {
    params: { ...params, release: releaseId },
    body: { processes: { postgres: 2 } },
  });
};

test('who sees an app sees its datastore, who develops it scales that, and nobody else knows of it', async () => {
  await using viewer = await somebody('vera', { shop: 'viewer' });
  await using developer = await somebody('dora', { shop: 'developer' });
  await using foreign = await somebody('fred', { blog: 'admin' });
  assert.equal((await look(viewer)).name, own.name);
  await assert.rejects(change(viewer), isCode('denied', /what counts is the role on an app that has it/));
  await scale(developer);
  await change(developer);
  for (const act of [look, change, scale]) await assert.rejects(act(foreign), { code: 'not_found' });
  const namesSeen = async (client: HttpClient) => (await client.call(apps.list, {})).map(({ name }) => name);
  assert.deepEqual(await namesSeen(developer), ['shop', 'shop-postgres']);
  assert.deepEqual(await namesSeen(foreign), ['blog']);
});

test('an admin of an app is a developer of its datastore: more is for admins of the cluster', async () => {
  await using admin = await somebody('ada', { shop: 'admin' });
  await using operator = await somebody('olga', {}, { role: 'admin' });
  await scale(admin);
  const stranger = { params: { app: own.name, kind: 'user', name: 'ada' }, body: { role: 'admin' as const } };
  await assert.rejects(admin.call(grants.put, stranger), isCode('denied', /an admin of the cluster can do it/));
  await assert.rejects(
    operator.call(grants.put, stranger),
    isCode('denied', /is a datastore.*role on an app that has it/),
  );
});

test('a token for one app is good for its datastore as far as for the app, and one for the datastore is so too', async () => {
  await using both = await somebody('bea', { shop: 'viewer', blog: 'developer' }, { only: ['shop'] });
  await using other = await somebody('otto', { shop: 'developer', blog: 'developer' }, { only: ['blog'] });
  await using exact = await somebody('eve', { shop: 'developer' }, { only: ['shop-postgres'] });
  await look(both);
  await assert.rejects(change(both), { code: 'denied' });
  await assert.rejects(look(other), { code: 'not_found' });
  await scale(exact);
  await assert.rejects(exact.call(apps.get, { params: { app: 'shop' } }), { code: 'not_found' });
});

test('one more app that has it lets its people in, and with it they go at once, with all that is open to them', async () => {
  await using guest = await somebody('gus', { blog: 'developer' });
  await assert.rejects(look(guest), { code: 'not_found' });
  const both = { params: { resource: own.resourceId, app: 'blog' } };
  await world.client.call(resources.addApp, { ...both, body: {} });
  await scale(guest);
  const signal = AbortSignal.timeout(30_000);
  const kind = { params: { group: 'flynn', version: 'v1', kind: 'App' } };
  const stream = guest.events(generic.watch, kind, { signal });
  await stream.next();
  await world.client.call(resources.removeApp, both);
  // It ends by itself; else the signal ends it, and that throws.
  for (let next = await stream.next(); next.done !== true; next = await stream.next());
  await assert.rejects(look(guest), { code: 'not_found' });
});

test('what its members know each other by is read by admins of the cluster alone, wherever it is shown', async () => {
  await using developer = await somebody('dan', { shop: 'developer' }, { role: 'developer' });
  const { releaseId = '' } = await look(developer);
  const ofKind = (kind: string) => ({ params: { group: 'flynn', version: 'v1', kind } });
  const told = [
    await developer.call(releases.list, { params }),
    await developer.call(releases.get, { params: { ...params, release: releaseId } }),
    await developer.call(generic.list, ofKind('App')),
    await developer.call(generic.list, ofKind('Release')),
  ];
  // The one of the apps they have in their own variables.
  const { POSTGRES_PASSWORD: _shared, ...others } = own.secrets;
  const closed = Object.values(others);
  assert.match(JSON.stringify(told), /POSTGRES_SUPERUSER_PASSWORD/);
  assert.doesNotMatch(JSON.stringify(told), new RegExp(closed.join('|')));
  const open = await world.client.call(releases.get, { params: { ...params, release: releaseId } });
  assert.deepEqual(open.env, own.secrets);
  const file = { ...ofKind('App').params, name: own.name };
  await assert.rejects(
    developer.call(generic.put, { params: file, query: { dryRun: true }, body: { spec: { env: { A: 'b' } } } }),
    isCode('denied', /its file is for admins of the cluster/),
  );
});

test('a shell in a member is for admins of the cluster', async () => {
  await using developer = await somebody('dina', { shop: 'developer' });
  const [job] = await world.jobsOf(own.name, 2);
  const refused = isCode('denied', /a shell in shop-postgres.*flynn pg psql -a shop-postgres is for you/);
  await assert.rejects(developer.call(jobs.run, { params, body: { command: ['sh'] } }), refused);
  await assert.rejects(developer.upgrade(jobs.exec, { params, query: { command: '["sh"]' } }), refused);
  await assert.rejects(
    developer.upgrade(jobs.attach, { params: { ...params, job: job?.id ?? '' }, query: {} }),
    refused,
  );
  (await world.client.upgrade(jobs.exec, { params, query: { command: '["sh"]' } })).destroy();
});

test('its password is made anew by developers of all apps that have it; who only looks sees whom they log in as', async () => {
  await using developer = await somebody('rita', { shop: 'developer' });
  await using viewer = await somebody('vito', { shop: 'viewer', blog: 'viewer' });
  const both = { params: { resource: own.resourceId, app: 'blog' } };
  await world.client.call(resources.addApp, { ...both, body: {} });
  const rotate = (client: HttpClient) => client.call(datastores.rotate, { params });
  await assert.rejects(rotate(developer), isCode('denied', /for developers of all apps that have it/));
  await assert.rejects(rotate(viewer), { code: 'denied' });
  assert.equal((await viewer.call(datastores.credentials, { params })).login, 'app');
  await world.client.call(resources.removeApp, both);
  const untilLeft = async () =>
    (await world.client.call(resources.get, { params: { resource: own.resourceId } })).apps.length === 1;
  await waitFor(untilLeft, { what: 'blog to be without it', deadlineMs: 30_000, intervalMs: 10 });
  assert.equal((await rotate(developer)).rotation?.by, 'rita');
});

test('who develops an app may link another of theirs to its datastore, who does not may not', async () => {
  await using developer = await somebody('lina', { shop: 'developer', blog: 'developer' });
  await using foreign = await somebody('fay', { blog: 'admin' });
  const { releaseId = '' } = await world.client.call(apps.get, { params: { app: 'shop' } });
  const { links = [] } = await world.client.call(releases.get, { params: { app: 'shop', release: releaseId } });
  assert.notEqual(links.length, 0);
  const link = (client: HttpClient) => client.call(releases.create, { params: { app: 'blog' }, body: { links } });
  await assert.rejects(link(foreign), isCode('denied', /another app's service/));
  await link(developer);
});
