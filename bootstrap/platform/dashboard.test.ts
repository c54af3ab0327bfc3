/** The web page is a part that the platform does without: where people have its name, and where a version does not know it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { tokens } from '@flynn/controller/access/api';
import { apps, formations, releases } from '@flynn/controller/api';
import { certificates } from '@flynn/controller/certificates/api';
import { generic } from '@flynn/controller/generic/api';
import { routing } from '@flynn/controller/routes/api';
import { startTestController } from '@flynn/controller/testing';
import { FlynnError, hasCode, ifFound } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import { createAuthority, issueCertificate } from '@flynn/kit/tls';
import { type LeftCounts, leftCountsPut, readLeftCounts, withLeft } from './left-counts.ts';
import type { SystemApp } from './manifest.ts';
import { Platform } from './platform.ts';
import { readOptions, settle } from '../settings.ts';
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
const settled = settle(readOptions({}), undefined, {
  hostname: 'host',
  address: '192.0.2.7',
  now: new Date(0),
  newSecret: () => 'secret',
  authority: { certificate: 'CERTIFICATE', privateKey: 'PRIVATE KEY' },
});

const keep = async (): Promise<void> => {};
const authority = await createAuthority('test');
const cluster = { ...settled, authority };

test('an app of somebody that is called so stays theirs, and the platform is whole without', async () => {
  await using world = await startTestController();
  const platform = new Platform(world.client);
  const { release } = await world.deployApp('dashboard', { web: { env: { OWN: '1' } } });
  assert.equal(await platform.ensureApp(dashboard, told), 'left out');
  assert.equal(await platform.hasOwn('dashboard'), false);
  const app = await world.client.call(apps.get, { params: { app: 'dashboard' } });
  assert.deepEqual([app.releaseId, app.isSystem], [release.id, false]);
  await removeUnknownParts(world.client, { cluster, known: {}, keep, tell: told });
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

test('whose service is called so keeps it, and nobody gets it anew: neither by a release nor by going back to one', async () => {
  await using world = await startTestController();
  const { client } = world;
  const platform = new Platform(client);
  const called = (service: string) => ({ web: { ports: [{ port: 80, service: { name: service } }] } });
  const isDenied = (error: unknown) => hasCode(error, 'denied') && /kept for the platform/.test(error.message);
  await assert.rejects(world.deployApp('shop', called('dashboard')), isDenied, 'also while it is not there');

  // As a version of before let people do.
  const { release } = await world.deployApp('blog', called('blog-web'));
  const { entries } = await world.store.list('/');
  const { key = '', value = '' } = entries.find((entry) => entry.key.endsWith(`/release/${release.id}`)) ?? {};
  await world.store.transact({ then: [{ put: key, value: value.replaceAll('blog-web', 'dashboard') }] });
  assert.equal(await platform.ensureApp(dashboard, told), 'left out');
  assert.equal(await platform.find('dashboard'), undefined);
  const another = await client.call(releases.create, {
    params: { app: 'blog' },
    body: { processes: called('dashboard') },
  });
  assert.equal((await world.deploy('blog', another.id)).state, 'complete', 'what it has it may deploy');
  await world.deployApp('blog-review', called('dashboard'));
  await client.call(apps.remove, { params: { app: 'blog-review' } });

  const own = await world.makeRelease('blog', called('blog-web'));
  assert.equal((await world.deploy('blog', own.id)).state, 'complete');
  assert.equal((await world.deploy('blog', another.id)).state, 'complete', 'back to one from before');
  const next = await world.makeRelease('blog', called('blog-web'));
  assert.equal((await world.deploy('blog', next.id)).state, 'complete');
  const again = await world.makeRelease('blog', called('dashboard'));
  assert.equal(await platform.ensureApp(dashboard, told), 'created');
  for (const { id } of [another, again]) await assert.rejects(world.deploy('blog', id), isDenied, 'now there is one');
  const isOwn = (error: unknown) => hasCode(error, 'denied') && /the platform's own/.test(error.message);
  await assert.rejects(world.makeRelease('blog', called('dashboard')), isOwn);
});

test('its host name is its own with all paths: whoever has one below keeps it from there, and nobody gets one later', async () => {
  await using world = await startTestController();
  const { client } = world;
  const platform = new Platform(client);
  await world.deployApp('shop', { web: {} });
  const params = { app: 'shop' };
  const docs = await client.call(routing.create, { params, body: { domain: name, path: '/docs' } });
  const elsewhere = 'dashboard.example.com';
  await client.call(routing.create, { params, body: { domain: elsewhere, path: '/docs' } });
  assert.equal(await platform.ensureApp(dashboard, told), 'left out');
  assert.equal(await platform.find('dashboard'), undefined);

  await client.call(routing.remove, { params: { ...params, route: docs.id } });
  const second = { type: 'http' as const, domain: elsewhere, service: 'dashboard' };
  assert.equal(await platform.ensureApp({ ...dashboard, routes: [...dashboard.routes, second] }, told), 'created');
  assert.deepEqual(await platform.namesOf('dashboard', [name, elsewhere]), [name]);
  const isRefused = (error: unknown) => hasCode(error, 'conflict') && /all of it is dashboard's/.test(error.message);
  await assert.rejects(client.call(routing.create, { params, body: { domain: name, path: '/docs' } }), isRefused);
  const file = { params: { group: 'flynn', version: 'v1', kind: 'Route' } };
  const body = { owner: 'app/shop', spec: { domain: name, path: '/session' } };
  await assert.rejects(client.call(generic.apply, { ...file, body }), isRefused, 'as a file');
  const app = { name: 'another', spec: { routes: [{ domain: name, path: '/session', service: 'another-web' }] } };
  const planned = { params: { ...file.params, kind: 'App' }, body: app, query: { dryRun: true } };
  await assert.rejects(client.call(generic.apply, planned), isRefused, 'of an app, before anything is made');
});

test('before a version that lacks it, it goes with its name and the certificate nobody would renew', async () => {
  await using world = await startTestController();
  const platform = new Platform(world.client);
  const own = await issueCertificate(authority, { name, addresses: [name] });
  const certificate = own.certificate + authority.certificate;
  const { client } = world;
  const isThere = async () => (await ifFound(client.call(apps.get, { params: { app: 'dashboard' } }))) !== undefined;
  assert.equal(await platform.ensureApp(dashboard, told), 'created');
  const [route] = await client.call(routing.list, { params: { app: 'dashboard' } });
  assert.deepEqual([route?.domain, route?.service, route?.http?.https.redirect], [name, 'dashboard', true]);
  await client.call(certificates.add, { body: { domains: [name], certificate, privateKey: own.privateKey } });

  await removeUnknownParts(client, {
    cluster,
    known: { dashboard: 'flynn/dashboard:0', router: 'flynn/router:0' },
    keep,
    tell: told,
  });
  assert.ok(await isThere(), 'a version that knows it has it');
  const { token } = await client.call(tokens.create, { body: { name: 'browser', isLink: true } });
  const kept = await client.call(tokens.create, { body: { name: 'kept' } });
  const known = { router: 'flynn/router:0' };
  const refused = removeUnknownParts(client, {
    cluster,
    known,
    keep,
    tell: told,
    check: async () => {
      throw new FlynnError('conflict', 'a host is away. Nothing was changed');
    },
  });
  await assert.rejects(refused, /a host is away/);
  assert.ok(await isThere(), 'where the version would not have the cluster nothing is gone');
  assert.equal((await client.call(tokens.list, {})).length, 2);
  const { releaseId = '' } = await client.call(apps.get, { params: { app: 'dashboard' } });
  const off = { params: { app: 'dashboard', release: releaseId }, body: { processes: { web: 0 } } };
  await client.call(formations.put, off);
  const lines: string[] = [];
  const keepIn = async (counts: LeftCounts) => void (await world.store.transact({ then: [leftCountsPut(counts)] }));
  await removeUnknownParts(client, { cluster, known, keep: keepIn, tell: (line) => lines.push(line) });
  assert.match(lines.join('\n'), /dashboard is deleted.*brings it back/);
  const left = await client.call(tokens.list, {});
  assert.deepEqual(
    left.map(({ id }) => id),
    [kept.id],
    `a link is a token to that version: ${token.slice(0, 12)}`,
  );
  assert.equal(await isThere(), false);
  assert.deepEqual(await client.call(certificates.list, {}), []);
  await removeUnknownParts(client, { cluster, known: {}, keep, tell: told });
  const back = withLeft(
    dashboard,
    await readLeftCounts(world.store, { signal: AbortSignal.timeout(60_000), report: told }),
  );
  assert.equal(await platform.ensureApp(back, told), 'created', 'and it is back with the next version');
  const next = await client.call(apps.get, { params: { app: 'dashboard' } });
  const counts = { params: { app: 'dashboard', release: next.releaseId ?? '' } };
  assert.deepEqual((await client.call(formations.get, counts)).processes, { web: 0 }, 'turned off, as it was');
});

test('where its removal was cut the next one goes on, and that it is deleted is told once it is', async () => {
  await using world = await startTestController();
  const { client } = world;
  assert.equal(await new Platform(client).ensureApp(dashboard, told), 'created');
  const own = await issueCertificate(authority, { name, addresses: [name] });
  const certificate = own.certificate + authority.certificate;
  await client.call(certificates.add, { body: { domains: [name], certificate, privateKey: own.privateKey } });
  for (const cut of [certificates.remove, apps.remove]) {
    const cutting: Pick<HttpClient, 'call'> = {
      call: async (endpoint, ...rest) => {
        if (endpoint.path === cut.path && endpoint.method === cut.method) throw new FlynnError('internal', 'cut');
        return client.call(endpoint, ...rest);
      },
    };
    const tell = () => assert.fail('it is there yet');
    await assert.rejects(removeUnknownParts(cutting, { cluster, known: {}, keep, tell }), /cut/);
  }
  await removeUnknownParts(client, { cluster, known: {}, keep, tell: told });
  assert.equal(await ifFound(client.call(apps.get, { params: { app: 'dashboard' } })), undefined);
  assert.deepEqual(await client.call(certificates.list, {}), []);
});

test('a certificate that people brought for its name stays, whatever becomes of it', async () => {
  await using world = await startTestController();
  const { client } = world;
  assert.equal(await new Platform(client).ensureApp(dashboard, told), 'created');
  const theirs = await createAuthority('theirs');
  const own = await issueCertificate(theirs, { name, addresses: [name] });
  const certificate = own.certificate + theirs.certificate;
  const added = await client.call(certificates.add, {
    body: { domains: [name], certificate, privateKey: own.privateKey },
  });
  await removeUnknownParts(client, { cluster, known: {}, keep, tell: told });
  assert.deepEqual(
    (await client.call(certificates.list, {})).map(({ id }) => id),
    [added.id],
  );
});

test('one that cannot be deployed fails nothing else, and what the platform needs does', async () => {
  await using world = await startTestController({ behave: () => ({ is: 'exit', code: 1 }) });
  const platform = new Platform(world.client);
  const lines: string[] = [];
  const report = (line: string) => lines.push(line);
  assert.deepEqual(await platform.ensureApps([dashboard], report), ['failed']);
  assert.match(lines.join('\n'), /going on without dashboard: deploying dashboard failed/);
  await assert.rejects(
    platform.ensureApp({ ...dashboard, isDispensable: false }, report),
    /deploying dashboard failed/,
  );
});
