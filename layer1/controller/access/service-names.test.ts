import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { apps, deployments, formations, releases } from '../api.ts';
import { createControllerClient } from '../client.ts';
import { generic } from '../generic/api.ts';
import { routing } from '../routes/api.ts';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';
import { grants, tokens, users } from './api.ts';
import { serviceToken } from './service-token.ts';

const named = (name: string) => ({ web: { ports: [{ port: 80, service: { name } }] } });
const isDenied = (error: unknown) => hasCode(error, 'denied');

/** A user, and what they do. */
async function person(world: TestController, name: string) {
  const { client: root } = world;
  await root.call(users.create, { body: { name } });
  const { token } = await root.call(tokens.create, { body: { name: 'x', user: name } });
  const grantOn = (app: string) => ({ app, kind: 'user' as const, name });
  return {
    client: createControllerClient({ baseUrl: world.url, key: token }),
    isGiven: (app: string) => root.call(grants.put, { params: grantOn(app), body: { role: 'developer' } }),
    isTaken: (app: string) => root.call(grants.remove, { params: grantOn(app) }),
  };
}

test('what an app is called in discovery another is called by who is developer of both, and by nobody else', async () => {
  await using world = await startTestController();
  const { client: root } = world;
  const check = { type: 'http' as const, path: '/primary', status: 200 };
  await world.deployApp('sys', { web: { ports: [{ port: 80 }] } }, { isSystem: true });
  const { release } = await world.deployApp('victim', {
    web: { ports: [{ port: 80 }] },
    db: { ports: [{ port: 5432, service: { name: 'special' }, roles: [{ name: 'leading', check }] }] },
  });
  await root.call(formations.put, { params: { app: 'victim', release: release.id }, body: { processes: { db: 0 } } });
  await world.deployApp('shop', { web: { ports: [{ port: 80 }] } });
  await root.call(apps.create, { body: { name: 'shop-api' } });
  const ann = await person(world, 'ann');
  await using client = ann.client;
  await ann.isGiven('shop');
  const params = { app: 'shop' };
  const make = (processes: Parameters<TestController['makeRelease']>[1]) =>
    client.call(releases.create, { params, body: { processes } });

  for (const name of ['victim-web', 'special', 'leading', 'shop-api-web', 'sys-web']) {
    await assert.rejects(make(named(name)), isDenied, name);
    const roles = { web: { ports: [{ port: 80, roles: [{ name, check }] }] } };
    await assert.rejects(make(roles), isDenied, `as a role: ${name}`);
    const file = { params: { group: 'flynn', version: 'v1', kind: 'App' } };
    const applied = client.call(generic.apply, { ...file, body: { name: 'shop', spec: { processes: named(name) } } });
    await assert.rejects(applied, isDenied, `as a file: ${name}`);
  }
  await assert.rejects(
    make(named('special')),
    (error: Error) => !error.message.includes('victim'),
    'whose is not told',
  );
  await assert.rejects(make({ 'api-web': { ports: [{ port: 80 }] } }), isDenied, 'a type that is called so');
  const bySystem = { params, body: { processes: named('sys-web') } };
  await assert.rejects(root.call(releases.create, bySystem), isDenied, "the platform's is nobody's");
  await make(named('shop-db'));
  await make({ 'admin-web': { ports: [{ port: 80 }] } });

  await ann.isGiven('victim');
  const shared = await make(named('special'));
  const deployment = await world.deploy('shop', shared.id);
  assert.equal(deployment.state, 'complete');
  await ann.isTaken('victim');
  await make({ ...named('special'), worker: {} });
});

test('a name that became another app’s since a release was made is refused when it is deployed', async () => {
  await using world = await startTestController();
  const { client: root } = world;
  const ann = await person(world, 'ann');
  await using client = ann.client;
  await using runner = createControllerClient({ baseUrl: world.url, key: serviceToken(world.userKey, 'runner') });
  await world.deployApp('shop', named('first'));
  await root.call(apps.create, { body: { name: 'fresh' } });
  for (const app of ['shop', 'fresh']) await ann.isGiven(app);
  const inShop = { params: { app: 'shop' } };
  const inFresh = { params: { app: 'fresh' } };
  const { artifactId = '' } = await world.makeRelease('shop', {});
  const body = { artifactId, processes: named('late') };
  const early = await client.call(releases.create, { ...inShop, body });
  await client.call(releases.create, { ...inFresh, body });
  const second = await client.call(releases.create, { ...inShop, body: { artifactId, processes: named('second') } });
  assert.equal((await world.deploy('shop', second.id)).state, 'complete');
  await world.deployApp('victim', named('late'));

  for (const asking of [client, runner]) {
    const deployed = asking.call(deployments.create, { ...inShop, body: { releaseId: early.id } });
    await assert.rejects(deployed, isDenied);
    const taken = asking.call(releases.create, { ...inFresh, body: { env: { A: '1' } } });
    await assert.rejects(taken, isDenied, 'taken over, it is no less so');
    await assert.rejects(asking.call(releases.create, { ...inFresh, body }), isDenied);
  }
  const route = { domain: 'own.example.com', service: 'late' };
  await assert.rejects(client.call(routing.create, { ...inFresh, body: route }), isDenied, 'nor made public');
  await world.deployApp('other', named('shop-of-others'));
  const ofOthers = { ...route, service: 'shop-of-others' };
  await assert.rejects(client.call(routing.create, { ...inShop, body: ofOthers }), isDenied);
  const [first] = (await client.call(releases.list, inShop)).toReversed();
  const back = await client.call(deployments.create, { ...inShop, body: { releaseId: first?.id ?? '' } });
  assert.equal(back.newReleaseId, first?.id, 'what nobody took is had again');
});

test('an app is not made under a name whose default route would lead to another', async () => {
  await using world = await startTestController();
  await world.deployApp('shop', { 'api-web': { ports: [{ port: 80 }] }, ...named('blog-web') });
  for (const name of ['shop-api', 'blog']) {
    const made = world.client.call(apps.create, { body: { name } });
    await assert.rejects(made, (error) => hasCode(error, 'conflict') && /choose another name/.test(error.message));
  }
  await world.client.call(apps.create, { body: { name: 'shop-apis' } });
});

test('a file makes an app whose name begins like another, with what it is called itself', async () => {
  await using world = await startTestController();
  const { client: root } = world;
  const plain = { web: { ports: [{ port: 80 }] } };
  await world.deployApp('router', plain, { isSystem: true });
  await root.call(users.create, { body: { name: 'dev', role: 'developer' } });
  const { token } = await root.call(tokens.create, { body: { name: 'x', user: 'dev' } });
  await using client = createControllerClient({ baseUrl: world.url, key: token });
  const file = { params: { group: 'flynn', version: 'v1', kind: 'App' } };
  const spec = { processes: { ...plain, worker: { links: ['router-docs-web'] } } };
  for (const query of [{ dryRun: 'true' as const }, {}]) {
    await client.call(generic.apply, { ...file, query, body: { name: 'router-docs', spec } });
  }
  const ofOthers = { processes: { 'docs-web': { ports: [{ port: 80, service: { name: 'router-web' } }] } } };
  await assert.rejects(client.call(generic.apply, { ...file, body: { name: 'own', spec: ofOthers } }), isDenied);
});

test('a file that is refused for what its processes are called or link has changed nothing', async () => {
  await using world = await startTestController();
  await world.deployApp('controller', named('blobs'), { isSystem: true });
  await world.deployApp('victim', named('special'));
  await world.deployApp('shop', named('shop-web'));
  const ann = await person(world, 'ann');
  await using client = ann.client;
  await ann.isGiven('shop');
  const params = { app: 'shop' };
  const before = await client.call(routing.list, { params });
  const files = [
    ...['blobs', 'special'].map((name) => ({
      processes: named(name),
      routes: [{ domain: 'own.example.com', service: name }],
    })),
    { processes: { web: { links: ['special'] } }, routes: [{ domain: 'own.example.com', service: 'shop-web' }] },
  ];
  for (const spec of files) {
    const body = { name: 'shop', spec };
    for (const query of [{ dryRun: 'true' as const }, {}]) {
      const applied = client.call(generic.apply, {
        params: { group: 'flynn', version: 'v1', kind: 'App' },
        query,
        body,
      });
      await assert.rejects(applied, isDenied, JSON.stringify(spec));
    }
  }
  assert.deepEqual(await client.call(routing.list, { params }), before);
});
