import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { apps } from '../../api.ts';
import { routing } from '../../routes/api.ts';
import { startTestController } from '../../testing.ts';
import type { TestController } from '../../testing.ts';
import { certificates } from '../api.ts';
import type { CertificateResource } from '../resources.ts';
import { routeType } from '../../resources.ts';
import { certificateType } from '../resources.ts';
import { nameAll, naming } from './controllers.ts';

const dayMs = 86_400_000;
const deadlineMs = 30_000;

let world: TestController;
let running: Promise<void>;
const stop = new AbortController();

before(async () => {
  world = await startTestController({ domain: 'apps.net', hasWorker: false, hosts: 1 });
  const { deps } = world;
  running = naming({ deps, resources: deps.resources, log: deps.log }).run({ signal: stop.signal, log: deps.log });
  await world.client.call(apps.create, { body: { name: 'shop' } });
  const params = { app: 'shop' };
  for (const { id } of await world.client.call(routing.list, { params })) {
    await world.client.call(routing.remove, { params: { ...params, route: id } });
  }
});
after(async () => {
  stop.abort();
  await running;
  await world[Symbol.asyncDispose]();
});

async function all(): Promise<string[]> {
  const found = await world.deps.resources.list(certificateType);
  return found.map(({ spec }) => spec.domains.join('+')).toSorted();
}

async function until(names: string[]): Promise<void> {
  const isSo = async () => (await all()).join(' ') === names.join(' ');
  await waitFor(isSo, { what: `the certificates ${names.join(' ')}`, deadlineMs, intervalMs: 5 });
}

async function route(domain: string): Promise<string> {
  return (await world.client.call(routing.create, { params: { app: 'shop' }, body: { domain } })).id;
}

async function issue(name: string): Promise<void> {
  const { id } = await world.deps.resources.lookup(certificateType, name);
  const notAfter = new Date(Date.now() + 60 * dayMs).toISOString();
  const issued = {
    certificate: 'c',
    privateKey: 'k',
    issuer: 'i',
    notBefore: new Date().toISOString(),
    notAfter,
    notes: [],
  };
  const status = ({ spec }: CertificateResource) => ({
    issued,
    issuedFor: [...spec.domains],
    challenges: [],
    records: [],
  });
  await world.deps.resources.updateStatus(certificateType, id, status);
}

async function setAuthority(challenge: 'http-01' | 'dns-01'): Promise<void> {
  const hook = { url: 'http://127.0.0.1:1/' };
  await world.client.call(certificates.setAuthority, {
    body: { directoryUrl: 'https://127.0.0.1:1/', challenge, hook },
  });
}

/** Has one more route be seen to: all that was to be done for what was there before has been done by then. */
async function settled(domain: string): Promise<void> {
  const id = await route(domain);
  const isThere = async () => (await all()).includes(domain);
  await waitFor(isThere, { what: `a certificate for ${domain}`, deadlineMs, intervalMs: 5 });
  await world.client.call(routing.remove, { params: { app: 'shop', route: id } });
  await waitFor(async () => !(await isThere()), { what: `none for ${domain}`, deadlineMs, intervalMs: 5 });
}

test('what is served stays until what comes in its place is there: over to a wildcard, and back', async () => {
  await setAuthority('http-01');
  const names = ['a.apps.net', 'b.apps.net'];
  for (const name of names) await route(name);
  await until(names);
  for (const name of names) await issue(name);
  await setAuthority('dns-01');
  await settled('one.example.org');
  assert.deepEqual(await all(), ['*.apps.net', ...names]);
  await issue('*.apps.net');
  await until(['*.apps.net']);
  await setAuthority('http-01');
  await until(['*.apps.net', ...names]);
  await issue('a.apps.net');
  await settled('two.example.org');
  assert.deepEqual(await all(), ['*.apps.net', ...names]);
  await issue('b.apps.net');
  await until(names);
});

test('those of single names stay until what was asked for, for all of them together, is there', async () => {
  const others = ['a.apps.net', 'b.apps.net'];
  await route('www.example.com');
  await until([...others, 'www.example.com']);
  await issue('www.example.com');
  await world.client.call(certificates.request, { body: { domains: ['example.com', 'www.example.com'] } });
  await settled('three.example.org');
  assert.deepEqual(await all(), [...others, 'example.com+www.example.com', 'www.example.com']);
  await issue('example.com');
  await until([...others, 'example.com+www.example.com']);
});

test('while a route cannot be read, whose name it may be is not known: what is served stays', async () => {
  const key = '/flynn/resource/route/later';
  await world.store.transact({ then: [{ put: key, value: '{"type":"route","version":99}' }] });
  const id = await route('gone.example.com');
  const isThere = async () => (await all()).includes('gone.example.com');
  await waitFor(isThere, { what: 'its certificate', deadlineMs, intervalMs: 5 });
  await issue('gone.example.com');
  await world.client.call(routing.remove, { params: { app: 'shop', route: id } });
  const beside = await route('beside.example.com');
  await waitFor(async () => (await all()).includes('beside.example.com'), {
    what: 'a later look',
    deadlineMs,
    intervalMs: 5,
  });
  assert.ok(await isThere());
  await world.store.transact({ then: [{ delete: key }] });
  await world.client.call(routing.remove, { params: { app: 'shop', route: beside } });
  await waitFor(async () => !(await isThere()), { what: 'it to go with its route', deadlineMs, intervalMs: 5 });
});

test('one that people bring in the place of one that is about to go stays', async () => {
  const { deps } = world;
  const { resources } = deps;
  const id = await route('theirs.example.com');
  const isThere = async () => (await all()).includes('theirs.example.com');
  await waitFor(isThere, { what: 'its certificate', deadlineMs, intervalMs: 5 });
  await using routes = await resources.mirror(routeType);
  const certificatesBefore = await resources.mirror(certificateType);
  // From now on it tells what was.
  await certificatesBefore[Symbol.asyncDispose]();
  const { id: certificateId } = await resources.lookup(certificateType, 'theirs.example.com');
  const own = { certificate: 'c', privateKey: 'k', issuer: 'i', notBefore: '', notAfter: '', notes: [] };
  const spec = { source: 'own' as const, domains: ['theirs.example.com'], own, isAutomatic: false };
  await resources.update(certificateType, certificateId, () => spec);
  await world.client.call(routing.remove, { params: { app: 'shop', route: id } });
  await waitFor(() => !routes.snapshot.entries.has(id), { what: 'the route to be gone', deadlineMs, intervalMs: 5 });
  const look = {
    routes,
    isMissingRoutes: false,
    certificates: certificatesBefore,
    signal: stop.signal,
    epoch: undefined,
  };
  await assert.rejects(nameAll(deps, look), { code: 'conflict' });
  assert.ok(await isThere());
});
