/** The web page is a part that the platform does without: where people have its name, and where a version does not know it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { apps } from '@flynn/controller/api';
import { certificates } from '@flynn/controller/certificates/api';
import { routing } from '@flynn/controller/routes/api';
import { startTestController } from '@flynn/controller/testing';
import { ifFound } from '@flynn/kit/errors';
import { createAuthority, issueCertificate } from '@flynn/kit/tls';
import type { SystemApp } from './manifest.ts';
import { Platform } from './platform.ts';
import { readOptions, settle } from './settings.ts';
import { removeUnknownParts } from './unknown-parts.ts';

const told = (): void => {};
const name = 'dashboard.flynn.localhost';
const dashboard: SystemApp = {
  name: 'dashboard',
  image: 'flynn/dashboard:1',
  env: {},
  processes: { web: {} },
  counts: { web: 1 },
  routes: [{ type: 'http', domain: name, service: 'dashboard', http: { https: { redirect: true } } }],
  isDispensable: true,
};
const cluster = settle(readOptions({}), undefined, {
  hostname: 'host',
  address: '192.0.2.7',
  now: new Date(0),
  newSecret: () => 'secret',
  authority: { certificate: 'CERTIFICATE', privateKey: 'PRIVATE KEY' },
});

test('an app of somebody that is called so stays theirs, and the platform is whole without', async () => {
  await using world = await startTestController();
  const platform = new Platform(world.client);
  const { release } = await world.deployApp('dashboard', { web: { env: { OWN: '1' } } });
  assert.equal(await platform.ensureApp(dashboard, told), 'left out');
  assert.equal(await platform.hasOwn('dashboard'), false);
  const app = await world.client.call(apps.get, { params: { app: 'dashboard' } });
  assert.deepEqual([app.releaseId, app.isSystem], [release.id, false]);
  await removeUnknownParts(world.client, { cluster, known: {} });
  await world.client.call(apps.get, { params: { app: 'dashboard' } });
});

test('an address that somebody has stays theirs: first there is no web page, later it is there without', async () => {
  await using world = await startTestController();
  const platform = new Platform(world.client);
  await world.deployApp('shop', { web: {} });
  await world.client.call(routing.create, { params: { app: 'shop' }, body: { domain: name } });
  assert.equal(await platform.ensureApp(dashboard, told), 'left out');
  assert.equal(await platform.hasOwn('dashboard'), false);
  assert.deepEqual(await platform.namesOf('shop', [name]), [name]);

  const elsewhere = 'dashboard.example.com';
  await world.client.call(routing.create, { params: { app: 'shop' }, body: { domain: elsewhere } });
  const all = await world.client.call(routing.list, { params: { app: 'shop' } });
  const own = all.find((one) => one.domain === name);
  await world.client.call(routing.remove, { params: { app: 'shop', route: own?.id ?? '' } });
  const second = { type: 'http' as const, domain: elsewhere, service: 'dashboard' };
  const moved = { ...dashboard, routes: [...dashboard.routes, second] };
  assert.equal(await platform.ensureApp(moved, told), 'created');
  assert.deepEqual(await platform.namesOf('dashboard', [name, elsewhere]), [name]);
  assert.equal(await platform.ensureApp(moved, told), 'unchanged', 'again it is no trouble either');
});

test('before a version that lacks it, it goes with its name and the certificate nobody would renew', async () => {
  await using world = await startTestController();
  const platform = new Platform(world.client);
  const authority = await createAuthority('test');
  const own = await issueCertificate(authority, { name, addresses: [name] });
  const certificate = own.certificate + authority.certificate;
  const { client } = world;
  const isThere = async () => (await ifFound(client.call(apps.get, { params: { app: 'dashboard' } }))) !== undefined;
  assert.equal(await platform.ensureApp(dashboard, told), 'created');
  const [route] = await client.call(routing.list, { params: { app: 'dashboard' } });
  assert.deepEqual([route?.domain, route?.service, route?.http?.https.redirect], [name, 'dashboard', true]);
  await client.call(certificates.add, { body: { domains: [name], certificate, privateKey: own.privateKey } });

  await removeUnknownParts(client, { cluster, known: { dashboard: 'flynn/dashboard:0', router: 'flynn/router:0' } });
  assert.ok(await isThere(), 'a version that knows it has it');
  await removeUnknownParts(client, { cluster, known: { router: 'flynn/router:0' } });
  assert.equal(await isThere(), false);
  assert.deepEqual(await client.call(certificates.list, {}), []);
  await removeUnknownParts(client, { cluster, known: {} });
  assert.equal(await platform.ensureApp(dashboard, told), 'created', 'and it is back with the next version');
});
