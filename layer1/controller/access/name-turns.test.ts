/** Two that take one name at the same moment: one of them has it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { createMemoryStore } from '@flynn/store/memory';
import { apps, deployments, releases } from '../api.ts';
import { createControllerClient } from '../client.ts';
import { beforeWrite } from '../testing/race-fixture.ts';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';
import { grants, tokens, users } from './api.ts';

const named = (name: string) => ({ web: { ports: [{ port: 80, service: { name } }] } });

/** An app, its developer, who is of no other, and a release of it that is called so. */
async function developed(world: TestController, app: string, service: string) {
  const { client: root } = world;
  const { artifactId = '' } = (await world.deployApp(app, { worker: {} })).release;
  const user = `of-${app}`;
  await root.call(users.create, { body: { name: user } });
  const { token } = await root.call(tokens.create, { body: { name: 'x', user } });
  await root.call(grants.put, { params: { app, kind: 'user' as const, name: user }, body: { role: 'developer' } });
  const client = createControllerClient({ baseUrl: world.url, key: token });
  const params = { app };
  const body = { artifactId, processes: named(service) };
  const { id: releaseId } = await client.call(releases.create, { params, body });
  return {
    deploy: () => client.call(deployments.create, { params, body: { releaseId } }),
    [Symbol.asyncDispose]: () => client[Symbol.asyncDispose](),
  };
}

test('of two apps that are deployed at the same moment one has the name that both take', async () => {
  const store = createMemoryStore();
  await using world = await startTestController({ store });
  await using first = await developed(world, 'first', 'special');
  await using second = await developed(world, 'second', 'special');
  beforeWrite(store, '/flynn/resource/deployment/', first.deploy);
  await assert.rejects(
    second.deploy(),
    (error) => hasCode(error, 'denied') && /special is another app/.test(`${error}`),
  );
});

test('names that differ keep nobody from being deployed', async () => {
  const store = createMemoryStore();
  await using world = await startTestController({ store });
  await using first = await developed(world, 'first', 'special');
  await using second = await developed(world, 'second', 'other');
  beforeWrite(store, '/flynn/resource/deployment/', first.deploy);
  await second.deploy();
});

test('an app that is made while another takes where its default route leads is not made', async () => {
  const store = createMemoryStore();
  await using world = await startTestController({ store });
  await using first = await developed(world, 'first', 'shop-web');
  beforeWrite(store, '/flynn/name/app/shop', first.deploy);
  const made = world.client.call(apps.create, { body: { name: 'shop' } });
  await assert.rejects(made, (error) => hasCode(error, 'conflict') && /announces shop-web/.test(`${error}`));
});

test('nor does an app take a name that is another’s as soon as that is made', async () => {
  const store = createMemoryStore();
  await using world = await startTestController({ store });
  await using first = await developed(world, 'first', 'shop-web');
  beforeWrite(store, '/flynn/resource/deployment/', () => world.client.call(apps.create, { body: { name: 'shop' } }));
  await assert.rejects(first.deploy(), (error) => hasCode(error, 'denied'));
});
