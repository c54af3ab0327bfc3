import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { resourceKey } from '@flynn/resource/keys';
import { tokens, users } from '../access/api.ts';
import { apps } from '../api.ts';
import { createControllerClient } from '../client.ts';
import { generic } from '../generic/api.ts';
import { routeType } from '../resources.ts';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';
import { routing } from './api.ts';

const hashOf = (letter: string) => `$scrypt$ln=15,r=8,p=1$${'s'.repeat(22)}$${letter.repeat(43)}`;
const of = (name: string, letter: string) => ({ access: { users: { [name]: { hash: hashOf(letter) } } } });
const routeKind = { group: 'flynn', version: 'v1', kind: 'Route' };
const reviewMs = 3_600_000;

let world: TestController;
before(async () => {
  world = await startTestController({ hosts: 0, hasWorker: false });
});
after(async () => {
  await world[Symbol.asyncDispose]();
});

async function create(name: string, more: object = {}): Promise<string> {
  const { id } = await world.client.call(apps.create, { body: { name, ...more } });
  return id;
}

const placeOf = async (app: string) => (await world.client.call(routing.list, { params: { app } }))[0]?.domain ?? '';

async function change(app: string, http: object, route?: string): Promise<void> {
  const params = { app, route: route ?? (await placeOf(app)) };
  await world.client.call(routing.update, { params, body: { http } });
}

/** With its hashes, as routers know it. */
async function kept(app: string): Promise<unknown> {
  const name = `${await placeOf(app)}/`;
  const { spec } = await world.client.call(generic.get, { params: { ...routeKind, name } });
  return spec['http'];
}

test('a clone lets in whom its app does', async () => {
  await create('shop');
  await create('open', { accessOf: 'shop' });
  assert.equal(await kept('open'), undefined);
  await change('shop', of('ann', 'a'));
  await create('copy', { accessOf: 'shop' });
  assert.deepEqual(await kept('copy'), await kept('shop'));
  assert.match(JSON.stringify(await kept('copy')), /aaaa/);
  await assert.rejects(create('none', { accessOf: 'gone' }), (error) => hasCode(error, 'not_found'));
});

test('a review app follows what changes of who gets in at its app, unless somebody said something else of it', async () => {
  const id = await create('blog');
  await change('blog', of('ann', 'a'));
  const meta = { 'review.of': id };
  for (const name of ['pr-1', 'pr-2', 'pr-3']) await create(name, { meta, reviewMs });
  await create('blog-copy', { accessOf: 'blog' });
  await change('pr-2', of('ben', 'b'));
  await change('pr-3', { maintenance: { allow: [] } });
  await change('blog', { ...of('ann', 'c'), sticky: true });
  assert.deepEqual(await kept('pr-1'), { access: { ...of('ann', 'c').access, allow: [], needs: 'all' } });
  assert.match(JSON.stringify(await kept('pr-2')), /aaaa.*bbbb/);
  assert.match(JSON.stringify(await kept('pr-3')), /"maintenance".*cccc|cccc.*"maintenance"/);
  assert.match(JSON.stringify(await kept('blog-copy')), /aaaa/, 'a clone is an app of its own');
  // By its file too; and of another route of the app nothing.
  const name = `${await placeOf('blog')}/`;
  await world.client.call(generic.patch, { params: { ...routeKind, name }, body: { spec: { http: of('eve', 'e') } } });
  assert.match(JSON.stringify(await kept('pr-1')), /cccc.*eeee/);
  const domain = 'other.example.com';
  await world.client.call(routing.create, { params: { app: 'blog' }, body: { domain, http: of('ann', 'a') } });
  await change('blog', of('ann', 'f'), domain);
  assert.match(JSON.stringify(await kept('pr-1')), /cccc.*eeee/);
  await change('blog', { access: null });
  assert.match(JSON.stringify(await kept('pr-1')), /cccc.*eeee/, 'what opens is said of each');
});

test('so do very many review apps', async () => {
  const id = await create('big', { meta: { 'review.max': '50' } });
  await change('big', of('ann', 'a'));
  const meta = { 'review.of': id };
  for (let nth = 1; nth <= 22; nth += 1) await create(`big-${nth}`, { meta, reviewMs });
  await change('big', of('ann', 'c'));
  for (const name of ['big-1', 'big-2', 'big-21', 'big-22'])
    assert.match(JSON.stringify(await kept(name)), /cccc/, name);
  const all = await world.client.call(generic.list, { params: routeKind });
  const following = all.filter(
    ({ spec }) => JSON.stringify([spec['domain'], spec['http']]).match(/"big.*cccc/) !== null,
  );
  assert.equal(following.length, 23);
});

test('of an app whose routes cannot be read there is no copy: it would let in everybody', async () => {
  await create('later');
  await change('later', of('ann', 'a'));
  const [route] = await world.client.call(routing.list, { params: { app: 'later' } });
  const key = resourceKey(routeType.name, route?.id ?? '');
  const { value } = (await world.store.get(key)) ?? { value: '' };
  await world.store.transact({ then: [{ put: key, value: value.replace('$scrypt$', '$argon2id$') }] });
  await assert.rejects(create('copy-of-later', { accessOf: 'later' }), (error) =>
    hasCode(error, 'internal', 'invalid'),
  );
  await world.store.transact({ then: [{ put: key, value }] });
});

test('who may not read the secrets of an app makes no copy that has them', async () => {
  const id = await create('dashboard', { isSystem: true });
  await change('dashboard', of('ann', 'a'));
  await world.client.call(users.create, { body: { name: 'dev', role: 'developer' } });
  const { token } = await world.client.call(tokens.create, { body: { name: 'x', user: 'dev' } });
  await using dev = createControllerClient({ baseUrl: world.url, key: token });
  const isDenied = (error: unknown) => hasCode(error, 'denied') && /for its developers to copy/.test(error.message);
  const meta = { 'review.of': id };
  await assert.rejects(dev.call(apps.create, { body: { name: 'spy', meta, reviewMs } }), isDenied);
  await assert.rejects(dev.call(apps.create, { body: { name: 'spy', accessOf: 'dashboard' } }), isDenied);
  const wanted = { name: 'spy', spec: { meta: { ...meta, 'review.expires_at': '2999-01-01T00:00:00Z' } } };
  const params = { ...routeKind, kind: 'App' };
  await assert.rejects(dev.call(generic.apply, { params, body: wanted }), isDenied);
});
