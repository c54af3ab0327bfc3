import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { HttpClient } from '@flynn/kit/http-client';
import { waitFor } from '@flynn/kit/retry';
import { createAuthority, issueCertificate } from '@flynn/kit/tls';
import type { Credentials } from '@flynn/kit/tls';
import { resourceKey } from '@flynn/resource/keys';
import { z } from 'zod';
import { grants, tokens, users } from '../access/api.ts';
import { serviceToken } from '../access/service-token.ts';
import { apps } from '../api.ts';
import { routing } from '../routes/api.ts';
import { audit } from '../audit/api.ts';
import { generic } from '../generic/api.ts';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';
import { certificates } from './api.ts';
import { servedCertificateSchema } from './model.ts';
import { certificateType } from './resources.ts';
import { renewTickets, ticketsId, ticketsType } from './tickets.ts';

const ticketSchema = z.object({ key: z.base64() });

let world: TestController;
let authority: Credentials;

before(async () => {
  world = await startTestController();
  authority = await createAuthority('test authority');
});
after(async () => world[Symbol.asyncDispose]());

async function made(...domains: [string, ...string[]]): Promise<{ certificate: string; privateKey: string }> {
  return issueCertificate(authority, { name: domains[0], addresses: domains });
}

async function developerOf(app: string, user: string): Promise<HttpClient> {
  const { client } = world;
  await client.call(users.create, { body: { name: user } });
  await client.call(grants.put, { params: { app, kind: 'user', name: user }, body: { role: 'developer' } });
  const { token } = await client.call(tokens.create, { body: { name: 'test', user } });
  return new HttpClient({ baseUrl: world.url, key: token, name: 'the controller' });
}

test('a certificate is added, listed without its key, replaced in place, and removed', async () => {
  const { client } = world;
  const first = await client.call(certificates.add, {
    body: { domains: ['Shop.Example.com.'], ...(await made('shop.example.com')) },
  });
  assert.deepEqual(first.domains, ['shop.example.com']);
  assert.equal(first.state, 'ready');
  assert.match(first.why, /signed by test authority, which is not in the chain/);
  const second = await client.call(certificates.add, {
    body: { domains: ['shop.example.com'], ...(await made('shop.example.com')) },
  });
  assert.equal(second.id, first.id);
  const listed = await client.call(certificates.list, {});
  assert.deepEqual(
    listed.map(({ id }) => id),
    [first.id],
  );
  assert.doesNotMatch(JSON.stringify(listed), /PRIVATE KEY/);
  await client.call(certificates.remove, { params: { certificate: 'shop.example.com' } });
  assert.deepEqual(await client.call(certificates.list, {}), []);
  await assert.rejects(client.call(certificates.remove, { params: { certificate: 'shop.example.com' } }), (error) =>
    hasCode(error, 'not_found'),
  );
});

test('routers are told all certificates with their keys, then what changes; nobody else is, whatever they may', async () => {
  const { client } = world;
  const body = { domains: ['a.example.com'], ...(await made('a.example.com')) };
  const { id } = await client.call(certificates.add, { body });
  await using router = new HttpClient({
    baseUrl: world.url,
    key: serviceToken(world.userKey, 'router'),
    name: 'the controller',
  });
  // As a later version may have written it, or a disk.
  const unreadable = resourceKey(certificateType.name, 'unreadable');
  await world.store.transact({ then: [{ put: unreadable, value: '{}' }] });
  const stop = new AbortController();
  const events: { event: string; data: unknown }[] = [];
  const following = (async () => {
    for await (const event of router.events(certificates.events, {}, { signal: stop.signal })) events.push(event);
  })().catch((error: unknown) => {
    if (!stop.signal.aborted) throw error;
  });
  const until = (count: number) =>
    waitFor(() => events.length >= count, { what: `${count} events`, deadlineMs: 30_000, intervalMs: 5 });
  await until(4);
  const tickets = events.findIndex(({ event }) => event === 'tickets');
  assert.equal(Buffer.from(ticketSchema.parse(events.splice(tickets, 1)[0]?.data).key, 'base64').length, 48);
  // In the order of their ids, which are made up.
  const listed = new Map(events.slice(0, 2).map(({ event, data }) => [event, data]));
  assert.deepEqual([[...listed.keys()].toSorted(), events[2]?.event], [['set', 'unreadable'], 'current']);
  assert.deepEqual(listed.get('unreadable'), { id: 'unreadable' });
  const told = servedCertificateSchema.parse(listed.get('set'));
  assert.equal(told.certificate, body.certificate.trimEnd() + '\n');
  assert.match(told.privateKey ?? '', /BEGIN PRIVATE KEY/);
  await client.call(certificates.remove, { params: { certificate: id } });
  await until(4);
  assert.deepEqual(events[3], { event: 'remove', data: { id } });
  stop.abort();
  await following;
  await world.store.transact({ then: [{ delete: unreadable }] });
  await using platform = new HttpClient({ baseUrl: world.url, key: world.key, name: 'the controller' });
  for (const other of [client, platform]) {
    await assert.rejects(
      async () => {
        for await (const event of other.events(certificates.events, {}, { signal: AbortSignal.timeout(60_000) })) {
          assert.fail(`it was told ${event.event}`);
        }
      },
      (error) => hasCode(error, 'denied'),
    );
  }
});

test('keys are in neither the audit trail nor the objects of the API', async () => {
  const { client } = world;
  await client.call(certificates.add, { body: { domains: ['b.example.com'], ...(await made('b.example.com')) } });
  const object = await client.call(generic.get, {
    params: { group: 'flynn', version: 'v1', kind: 'Certificate', name: 'b.example.com' },
  });
  assert.equal(object.spec['source'], 'own');
  assert.equal(object.status['state'], 'ready');
  assert.doesNotMatch(JSON.stringify(object), /PRIVATE KEY/);
  const trail = await waitFor(
    async () => {
      const entries = await client.call(audit.list, { query: {} });
      return entries.some(({ action }) => action === 'POST /certificates') ? entries : undefined;
    },
    { what: 'the entry', deadlineMs: 30_000, intervalMs: 10 },
  );
  assert.doesNotMatch(JSON.stringify(trail), /PRIVATE KEY/);
  await client.call(certificates.remove, { params: { certificate: 'b.example.com' } });
});

test('a developer may for names that are routes of their own apps alone, and sees those', async () => {
  const { client } = world;
  for (const name of ['shop', 'blog']) await client.call(apps.create, { body: { name } });
  const route = (app: string, domain: string, path = '/') =>
    client.call(routing.create, { params: { app }, body: { domain, path } });
  await route('shop', 'shop.example.org');
  await route('shop', 'both.example.org');
  await route('blog', 'both.example.org', '/blog');
  await using developer = await developerOf('shop', 'ann');
  const add = async (domain: string) =>
    developer.call(certificates.add, { body: { domains: [domain], ...(await made(domain)) } });
  assert.equal((await add('shop.example.org')).state, 'ready');
  for (const domain of ['both.example.org', '*.example.org', 'nobody.example.org']) {
    await assert.rejects(add(domain), (error) => hasCode(error, 'denied') && error.message.includes(domain));
  }
  await client.call(certificates.add, {
    body: { domains: ['both.example.org'], ...(await made('both.example.org')) },
  });
  assert.deepEqual(
    (await developer.call(certificates.list, {})).map(({ domains }) => domains[0]),
    ['shop.example.org'],
  );
  await assert.rejects(developer.call(certificates.remove, { params: { certificate: 'both.example.org' } }), (error) =>
    hasCode(error, 'not_found'),
  );
  await developer.call(certificates.remove, { params: { certificate: 'shop.example.org' } });

  const shared = { domains: ['shop.example.org', 'both.example.org'] };
  await client.call(certificates.add, { body: { ...shared, ...(await made('shop.example.org', 'both.example.org')) } });
  await assert.rejects(
    add('shop.example.org'),
    (error) => hasCode(error, 'denied') && /both\.example/.test(error.message),
  );
  const directoryUrl = 'https://authority.example/directory';
  await client.call(certificates.setAuthority, { body: { directoryUrl, contact: [] } });
  const asked = developer.call(certificates.request, { body: { domains: ['shop.example.org'] } });
  await assert.rejects(asked, (error) => hasCode(error, 'denied') && /both\.example/.test(error.message));
  const names = (await client.call(certificates.list, {})).flatMap(({ domains }) => domains);
  assert.ok(names.includes('both.example.org'), 'the other app keeps its certificate');
  await client.call(certificates.unsetAuthority, {});
});

test('all names below one are for admins to speak for, even while all routes there are of one’s own', async () => {
  const { client } = world;
  await client.call(apps.create, { body: { name: 'lone' } });
  const domain = 'a.lone.example.org';
  await client.call(routing.create, { params: { app: 'lone' }, body: { domain } });
  await using developer = await developerOf('lone', 'bea');
  const wildcard = ['a.lone.example.org', '*.lone.example.org'] as const;
  const body = { domains: [...wildcard], ...(await made(...wildcard)) };
  const isRefused = (error: unknown) =>
    hasCode(error, 'denied') && /\*\.lone\.example\.org speaks for names/.test(error.message);
  await assert.rejects(developer.call(certificates.add, { body }), isRefused);
  const hook = { url: 'http://127.0.0.1:1/' };
  const directoryUrl = 'https://127.0.0.1:1/directory';
  await client.call(certificates.setAuthority, {
    body: { directoryUrl, challenge: 'dns-01', hook, isAutomatic: false },
  });
  const asked = developer.call(certificates.request, { body: { domains: ['*.lone.example.org'] } });
  await assert.rejects(asked, isRefused);
  await client.call(certificates.unsetAuthority, {});
  // As a version before let them bring: it is theirs to see, to take away, and to have plain names in the place of.
  await client.call(certificates.add, { body });
  const seen = (await developer.call(certificates.list, {})).map(({ domains }) => domains.join(' '));
  assert.deepEqual(seen, ['a.lone.example.org *.lone.example.org']);
  await developer.call(certificates.add, { body: { domains: [domain], ...(await made(domain)) } });
  await developer.call(certificates.remove, { params: { certificate: domain } });
});

test('whose route is at a wildcard itself brings its certificate: nobody else can be below it', async () => {
  const { client } = world;
  for (const name of ['tenants', 'beside']) await client.call(apps.create, { body: { name } });
  const wildcard = '*.tenants.example.org';
  const add = (by: HttpClient, app: string, domain: string) =>
    by.call(routing.create, { params: { app }, body: { domain } });
  await using developer = await developerOf('tenants', 'cleo');
  await using other = await developerOf('beside', 'dora');
  const bring = async (by: HttpClient, domain: string) =>
    by.call(certificates.add, { body: { domains: [domain], ...(await made(domain)) } });
  const isRefused = (why: RegExp) => (error: unknown) => hasCode(error, 'denied') && why.test(error.message);
  await add(developer, 'tenants', wildcard);
  await assert.rejects(add(other, 'beside', 'a.tenants.example.org'), isRefused(/is another app's/));
  await assert.rejects(bring(other, wildcard), isRefused(/route of apps you are developer of/));
  const first = await bring(developer, wildcard);
  assert.equal((await bring(developer, wildcard)).id, first.id, 'and the next one in its place');
  const hook = { url: 'http://127.0.0.1:1/' };
  const directoryUrl = 'https://127.0.0.1:1/directory';
  await client.call(certificates.setAuthority, {
    body: { directoryUrl, challenge: 'dns-01', hook, isAutomatic: false },
  });
  await developer.call(certificates.remove, { params: { certificate: wildcard } });
  const asked = await developer.call(certificates.request, { body: { domains: [wildcard] } });
  assert.deepEqual(asked.domains, [wildcard]);
  await client.call(certificates.remove, { params: { certificate: asked.id } });
  await client.call(certificates.unsetAuthority, {});

  // An admin may have put another's there, and apps get names of the cluster's own domain by themselves.
  await add(client, 'beside', 'b.tenants.example.org');
  await assert.rejects(bring(developer, wildcard), isRefused(/and of no others/));
  const { domain } = world.deps.settings;
  await add(client, 'tenants', `*.${domain}`);
  await assert.rejects(bring(developer, `*.${domain}`), isRefused(/speaks for names/));
});

test('a certificate that is not for the name is refused as the caller’s mistake, with what it is for', async () => {
  await assert.rejects(
    world.client.call(certificates.add, {
      body: { domains: ['c.example.com'], ...(await made('d.example.com', 'e.example.com')) },
    }),
    (error) =>
      hasCode(error, 'invalid') &&
      error.message.endsWith('does not cover c.example.com: it is for d.example.com, e.example.com'),
  );
});

test('the key that sessions are resumed with is made once, and another after half a day', async () => {
  const { resources } = world.deps;
  let nowMs = Date.now();
  const deps = { resources, now: () => nowMs };
  const { signal } = new AbortController();
  const key = async () => (await resources.get(ticketsType, ticketsId)).status.key;
  await renewTickets(deps, { signal });
  const first = await key();
  nowMs += 11 * 3_600_000;
  await renewTickets(deps, { signal });
  assert.equal(await key(), first);
  nowMs += 2 * 3_600_000;
  await renewTickets(deps, { signal });
  const second = await key();
  assert.notEqual(second, first);
  nowMs -= 24 * 3_600_000;
  await renewTickets(deps, { signal });
  assert.notEqual(await key(), second, 'made while the clock was ahead');
});
