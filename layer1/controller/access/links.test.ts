import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { apps, releases } from '../api.ts';
import { createControllerClient } from '../client.ts';
import { generic } from '../generic/api.ts';
import { startTestController } from '../testing.ts';
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
