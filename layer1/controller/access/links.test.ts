import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { apps, deployments, jobs, releases } from '../api.ts';
import { createControllerClient } from '../client.ts';
import { generic } from '../generic/api.ts';
import { startTestController } from '../testing.ts';
import { slowlyTold } from '../testing/slow-watch.ts';
import { grants, tokens, users } from './api.ts';
import { serviceToken } from './service-token.ts';

const named = (name: string, links: string[] = []) => ({ web: { ports: [{ port: 80, service: { name } }], links } });
const isDenied = (error: unknown) => hasCode(error, 'denied');

test('a link to another app is for who is developer there; what an app has it keeps', async () => {
  await using world = await startTestController();
  const { client: root } = world;
  await world.deployApp('controller', named('controller'), { isSystem: true });
  await world.deployApp('victim', named('victim-db'));
  const { release } = await world.deployApp('shop', named('shop-web'));
  await world.deployApp('copy', named('copy-web'));
  for (const name of ['ann', 'dev']) await root.call(users.create, { body: { name } });
  const clientOf = async (user: string) => {
    const { token } = await root.call(tokens.create, { body: { name: 'x', user } });
    return createControllerClient({ baseUrl: world.url, key: token });
  };
  const give = (app: string, role: 'viewer' | 'developer') =>
    root.call(grants.put, { params: { app, kind: 'user', name: 'ann' }, body: { role } });
  for (const app of ['shop', 'copy']) await give(app, 'developer');
  await using ann = await clientOf('ann');
  await using runner = createControllerClient({ baseUrl: world.url, key: serviceToken(world.userKey, 'runner') });
  const link = (client: typeof ann, app: string, ...links: string[]) =>
    client.call(releases.create, { params: { app }, body: { processes: named(`${app}-web`, links) } });

  // What it is called, what it may be called yet, what nobody has, and the platform.
  for (const name of ['victim-db', 'victim-cache', 'victim', 'nobodys', 'controller']) {
    for (const client of [ann, runner]) await assert.rejects(link(client, 'shop', name), isDenied, name);
    const all = { params: { app: 'shop' }, body: { links: [name] } };
    await assert.rejects(ann.call(releases.create, all), isDenied, `of all types: ${name}`);
    const spec = { processes: named('shop-web', [name]) };
    const file = { params: { group: 'flynn', version: 'v1', kind: 'App' }, body: { name: 'shop', spec } };
    await assert.rejects(ann.call(generic.apply, file), isDenied, `as a file: ${name}`);
  }
  await link(ann, 'shop', 'shop-web', 'copy-web', 'copy-cache');

  await give('victim', 'viewer');
  await assert.rejects(link(ann, 'shop', 'victim-db'), isDenied, 'who only looks');
  const { artifactId = '' } = release;
  const linked = { artifactId, processes: named('shop-web', ['victim-db', 'controller']) };
  const byRoot = await root.call(releases.create, { params: { app: 'shop' }, body: linked });
  assert.equal((await world.deploy('shop', byRoot.id)).state, 'complete');
  for (const client of [ann, runner]) await link(client, 'shop', 'victim-db', 'controller');
  await link(ann, 'copy', 'victim-db');
  await assert.rejects(link(ann, 'copy', 'controller'), isDenied, 'a part of the platform spreads to no other app');

  await give('victim', 'developer');
  await link(ann, 'copy', 'victim-db', 'victim-cache');

  await root.call(users.update, { params: { user: 'dev' }, body: { role: 'developer' } });
  await using dev = await clientOf('dev');
  await dev.call(apps.create, { body: { name: 'own' } });
  await link(dev, 'own', 'victim-db', 'nobodys');
  await assert.rejects(link(dev, 'own', 'controller'), isDenied);
});

test('a link that was written down is judged once more when it is deployed, by what whoever deploys it may then', async () => {
  await using world = await startTestController();
  const { client: root } = world;
  await world.deployApp('controller', named('controller'), { isSystem: true });
  await world.deployApp('victim', named('victim-db'));
  const { release } = await world.deployApp('mine', named('mine-web'));
  const { artifactId = '' } = release;
  await root.call(users.create, { body: { name: 'mal' } });
  const { token } = await root.call(tokens.create, { body: { name: 'x', user: 'mal' } });
  await using mal = createControllerClient({ baseUrl: world.url, key: token });
  const grantOn = (app: string) => ({ app, kind: 'user' as const, name: 'mal' });
  for (const app of ['mine', 'victim']) {
    await root.call(grants.put, { params: grantOn(app), body: { role: 'developer' } });
  }
  const params = { app: 'mine' };
  const make = (client: typeof mal, ...links: string[]) =>
    client.call(releases.create, { params, body: { artifactId, processes: named('mine-web', links) } });
  const deploy = (releaseId: string) => mal.call(deployments.create, { params, body: { releaseId } });
  const linked = await make(mal, 'victim-db');
  await root.call(grants.remove, { params: grantOn('victim') });
  await assert.rejects(deploy(linked.id), isDenied);

  await root.call(apps.create, { body: { name: 'fresh' } });
  const inFresh = { params: { app: 'fresh' } };
  await root.call(grants.put, { params: grantOn('fresh'), body: { role: 'developer' } });
  await root.call(releases.create, { ...inFresh, body: { processes: named('fresh-web', ['controller']) } });
  const file = { params: { group: 'flynn', version: 'v1', kind: 'App' } };
  const spec = { image: 'registry.example.com/fresh:1', meta: { a: 'b' } };
  const first = mal.call(generic.apply, { ...file, body: { name: 'fresh', spec } });
  await assert.rejects(first, isDenied, 'nor with a file');
  assert.deepEqual((await root.call(apps.get, inFresh)).meta, {}, 'which has changed nothing');

  const byRoot = await make(root, 'victim-db', 'controller', 'nobodys');
  await assert.rejects(deploy(byRoot.id), isDenied, 'what an admin gives an admin deploys');
  assert.equal((await world.deploy('mine', byRoot.id)).state, 'complete');
  const next = await make(mal, 'victim-db', 'controller');
  assert.equal((await world.deploy('mine', next.id)).state, 'complete');
  const gone = await make(mal);
  assert.equal((await world.endOf((await deploy(gone.id)).id)).state, 'complete');
  await assert.rejects(deploy(next.id), isDenied, 'and it does not come back with what was before');
  const run = mal.call(jobs.run, { params, body: { command: ['sh'], releaseId: next.id } });
  await assert.rejects(run, isDenied, 'nor for a job of its own');
  const asItsOwn = await mal.call(releases.create, {
    params,
    body: { artifactId, processes: named('victim-cache', ['victim-cache']) },
  });
  const unannounced = mal.call(jobs.run, { params, body: { command: ['sh'], releaseId: asItsOwn.id } });
  await assert.rejects(unannounced, isDenied, 'nor by a name that only a job has, which announces nothing');
  const toNobody = await make(root, 'nobodys');
  assert.equal((await deploy(toNobody.id)).newReleaseId, toNobody.id);
});

test('a link to what an app is called itself ends with that name', async () => {
  await using world = await startTestController();
  const { client: root } = world;
  const { release } = await world.deployApp('shop', named('shop-web'));
  const { artifactId = '' } = release;
  await root.call(users.create, { body: { name: 'mal' } });
  const { token } = await root.call(tokens.create, { body: { name: 'x', user: 'mal' } });
  await using mal = createControllerClient({ baseUrl: world.url, key: token });
  const params = { app: 'shop' };
  await root.call(grants.put, { params: { ...params, kind: 'user', name: 'mal' }, body: { role: 'developer' } });
  const make = (processes: ReturnType<typeof named>) =>
    mal.call(releases.create, { params, body: { artifactId, processes } });
  const own = await make(named('cache', ['cache']));
  assert.equal((await world.deploy('shop', own.id)).state, 'complete');
  await make(named('cache', ['cache']));
  await assert.rejects(make(named('shop-web', ['cache'])), isDenied);
});

test('a role on another app counts from when it is answered as given, and no more once it is taken', async () => {
  await using world = await startTestController({ store: slowlyTold('/flynn/resource/grant/') });
  const { client: root } = world;
  await world.deployApp('victim', named('victim-db'));
  await world.deployApp('mine', named('mine-web'));
  await root.call(users.create, { body: { name: 'mal' } });
  const grantOn = (app: string) => ({ app, kind: 'user' as const, name: 'mal' });
  await root.call(grants.put, { params: grantOn('mine'), body: { role: 'developer' } });
  const { token } = await root.call(tokens.create, { body: { name: 'x', user: 'mal' } });
  await using mal = createControllerClient({ baseUrl: world.url, key: token });
  const link = () =>
    mal.call(releases.create, { params: { app: 'mine' }, body: { processes: named('mine-web', ['victim-db']) } });
  await assert.rejects(link(), isDenied);
  for (const role of ['viewer', 'developer'] as const) {
    await root.call(grants.put, { params: grantOn('victim'), body: { role } });
  }
  await link();
  await root.call(grants.remove, { params: grantOn('victim') });
  await assert.rejects(link(), isDenied);
});
