/**
 * Certificates from a real authority, shown by a real router. Ports 80 and 443 of a loopback address of its own: authorities
 * know no others.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { apps } from '@flynn/controller/api';
import { routing } from '@flynn/controller/routes/api';
import { certificates } from '@flynn/controller/certificates/api';
import type { Certificate } from '@flynn/controller/certificates/model';
import { serviceToken } from '@flynn/controller/access/service-token';
import { startTestController } from '@flynn/controller/testing';
import type { TestController } from '@flynn/controller/testing';
import { hasCode } from '@flynn/kit/errors';
import { HttpClient } from '@flynn/kit/http-client';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { startRouter } from '../router.ts';
import type { Router } from '../router.ts';
import { startCaddy } from './caddy-fixture.ts';
import type { TestAuthority } from './caddy-fixture.ts';
import { startZone } from './dns-fixture.ts';
import type { TestZone } from './dns-fixture.ts';
import { shake } from './testing.ts';

const address = '127.0.14.1';
const nameServer = '127.0.14.53';
const names = ['shop.acme-check.net', 'blog.acme-check.net', 'alpn.acme-check.net', 'late.acme-check.net'];
const deadlineMs = 60_000;

let world: TestController;
let caddy: TestAuthority;
let controller: HttpClient;
let router: Router;
let zone: TestZone;

before(async () => {
  zone = await startZone({ address: nameServer, secret: 'right' });
  caddy = await startCaddy({ names, address, nameServer });
  world = await startTestController({ hosts: 1, hostAddress: address });
  controller = new HttpClient({
    baseUrl: world.url,
    key: serviceToken(world.userKey, 'router'),
    name: 'the controller',
  });
  const log = silentLogger();
  const discovery = { openServiceSet: () => new Promise<never>(() => {}) };
  const tls = { port: 443, profile: 'modern' } as const;
  router = await startRouter({ controller, discovery, host: address, httpPort: 80, clusterKey: 'key', tls, log });
  await world.client.call(apps.create, { body: { name: 'shop' } });
});
after(async () => {
  await router?.stop({ drainMs: 0 });
  await controller?.close();
  await world?.[Symbol.asyncDispose]();
  await caddy?.[Symbol.asyncDispose]();
  await zone?.[Symbol.asyncDispose]();
});

async function shown(name: string): Promise<boolean> {
  const socket = await shake(443, { host: address, servername: name, ca: caddy.ca });
  socket.destroy();
  return true;
}

async function certificateFor(name: string): Promise<Certificate | undefined> {
  return (await world.client.call(certificates.list, {})).find(({ domains }) => domains.includes(name));
}

async function until(name: string, isThere: (one: Certificate) => boolean): Promise<Certificate> {
  return waitFor(
    async () => {
      const found = await certificateFor(name);
      return found !== undefined && isThere(found) ? found : undefined;
    },
    { what: `the certificate of ${name}`, deadlineMs },
  );
}

test('a route of a public name gets a certificate by itself, over HTTP-01, which goes with the route', async () => {
  const { client } = world;
  const { directoryUrl, ca } = caddy;
  const set = await client.call(certificates.setAuthority, {
    body: { directoryUrl, ca, contact: ['ops@example.com'] },
  });
  assert.equal(set.challenge, 'http-01');
  const route = await client.call(routing.create, { params: { app: 'shop' }, body: { domain: 'shop.acme-check.net' } });
  const made = await until('shop.acme-check.net', ({ state }) => state === 'ready');
  assert.equal(made.source, 'acme');
  assert.match(made.issuer ?? '', /Caddy Local Authority/);
  await waitFor(() => shown('shop.acme-check.net'), { what: 'the router to show it', deadlineMs });
  await client.call(routing.remove, { params: { app: 'shop', route: route.id } });
  await waitFor(async () => (await certificateFor('shop.acme-check.net')) === undefined, {
    what: 'it to go with its route',
    deadlineMs,
  });
});

test('several names in one certificate, asked for by hand; private names and wildcards are refused', async () => {
  const { client } = world;
  const domains = ['blog.acme-check.net', 'shop.acme-check.net'];
  await client.call(certificates.request, { body: { domains } });
  await until('blog.acme-check.net', ({ state }) => state === 'ready');
  for (const name of domains) await waitFor(() => shown(name), { what: `the router to show ${name}`, deadlineMs });
  await assert.rejects(
    client.call(certificates.request, { body: { domains: ['*.acme-check.net'] } }),
    (error) => hasCode(error, 'invalid') && /dns-01 alone/.test(error.message),
  );
});

test('a name that leads nowhere fails with what the authority says and the time of the next try; asked again it is tried at once', async () => {
  const { client } = world;
  await client.call(certificates.request, { body: { domains: ['nowhere.acme-check.net'] } });
  const failed = await until('nowhere.acme-check.net', ({ state }) => state === 'failing');
  assert.match(failed.why, /nowhere\.acme-check\.net was not proven/);
  const pauseMs = Date.parse(failed.nextTryAt ?? '') - Date.now();
  assert.ok(pauseMs > 60_000 && pauseMs <= 5 * 60_000, `${pauseMs} ms`);
  await client.call(certificates.request, { body: { domains: ['nowhere.acme-check.net'] } });
  await until(
    'nowhere.acme-check.net',
    ({ state, nextTryAt }) => state === 'failing' && nextTryAt !== failed.nextTryAt,
  );
  await client.call(certificates.remove, { params: { certificate: 'nowhere.acme-check.net' } });
});

test('TLS-ALPN-01: the authority is shown its certificate, clients meanwhile theirs', async () => {
  const { client } = world;
  const { directoryUrl, ca } = caddy;
  await client.call(certificates.setAuthority, {
    body: { directoryUrl, ca, challenge: 'tls-alpn-01', isAutomatic: false },
  });
  await client.call(certificates.request, { body: { domains: ['alpn.acme-check.net'] } });
  await until('alpn.acme-check.net', ({ state }) => state === 'ready');
  await waitFor(() => shown('alpn.acme-check.net'), { what: 'the router to show it', deadlineMs });
  assert.ok(await shown('blog.acme-check.net'));
});

test('DNS-01: a wildcard by way of the hook, which is told to clean up, and its refusal is told to people', async () => {
  const { client } = world;
  const { directoryUrl, ca } = caddy;
  const set = (secret: string) =>
    client.call(certificates.setAuthority, {
      body: { directoryUrl, ca, challenge: 'dns-01', hook: { url: zone.hookUrl, secret }, isAutomatic: false },
    });
  await set('wrong');
  await client.call(certificates.request, { body: { domains: ['*.dns-check.net', 'dns-check.net'] } });
  const failed = await until('dns-check.net', ({ state }) => state === 'failing');
  assert.match(failed.why, /the DNS hook answered 403 to present _acme-challenge\.dns-check\.net: who are you\?/);
  await set('right');
  await until('dns-check.net', ({ state }) => state === 'ready');
  for (const name of ['any.dns-check.net', 'dns-check.net']) {
    await waitFor(() => shown(name), { what: `the router to show ${name}`, deadlineMs });
  }
  await waitFor(() => zone.records.size === 0, { what: 'the zone to be clean', deadlineMs });
  assert.equal(zone.calls.filter((call) => call === 'present _acme-challenge.dns-check.net').length, 2);
});

test('an authority that is away is a failure that says so, and what there is stays', async () => {
  const { client } = world;
  await client.call(certificates.setAuthority, {
    body: { directoryUrl: 'https://localhost:1/directory', isAutomatic: false },
  });
  await client.call(certificates.request, { body: { domains: ['late.acme-check.net'] } });
  const failed = await until('late.acme-check.net', ({ state }) => state === 'failing');
  assert.match(failed.why, /the authority cannot be reached: .*ECONNREFUSED/);
  assert.ok(await shown('alpn.acme-check.net'));
});
