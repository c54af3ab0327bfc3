import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { apps, deployments, releases } from '../api.ts';
import { createControllerClient } from '../client.ts';
import { create, join } from '../operations/lifecycle-fixture.ts';
import type { TestRunner } from '../operations/test-runner.ts';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';
import { grants, tokens, users } from './api.ts';
import { serviceToken } from './service-token.ts';

const named = (name: string, links: string[] = []) => ({ web: { ports: [{ port: 80, service: { name } }], links } });
type Processes = Parameters<TestController['makeRelease']>[1];
const isDenied = (error: unknown) => hasCode(error, 'denied');

async function developer(world: TestController, name: string, ...of: string[]) {
  const { client: root } = world;
  await root.call(users.create, { body: { name } });
  for (const app of of) {
    await root.call(grants.put, { params: { app, kind: 'user', name }, body: { role: 'developer' } });
  }
  const { token } = await root.call(tokens.create, { body: { name: 'x', user: name } });
  return createControllerClient({ baseUrl: world.url, key: token });
}

/** A runner, by the token that it calls the controller with, and a push that it carries out. */
async function runners(world: TestController) {
  const client = createControllerClient({ baseUrl: world.url, key: serviceToken(world.userKey, 'runner') });
  const runner: TestRunner = await join(world, 'own');
  const pushing = async <T>(by: typeof client, app: string, act: () => Promise<T>): Promise<T> => {
    await create(by, app, {});
    const { id } = await runner.claim();
    try {
      return await act();
    } finally {
      await runner.report({ ended: [{ id, state: 'complete' }] });
    }
  };
  const push = async (by: typeof client, app: string, body: { artifactId: string; processes: Processes }) =>
    pushing(by, app, async () => {
      const made = await client.call(releases.create, { params: { app }, body });
      return client.call(deployments.create, { params: { app }, body: { releaseId: made.id } });
    });
  return { client, pushing, push, [Symbol.asyncDispose]: () => client.close() };
}

test('a push may what whoever asked for it may, however long somebody else had not what it takes', async () => {
  await using world = await startTestController();
  const { client: root } = world;
  const { release: first } = await world.deployApp('victim', named('special'));
  const { artifactId = '' } = first;
  await root.call(apps.create, { body: { name: 'mine' } });
  await using mallory = await developer(world, 'mallory', 'mine');
  await using own = await runners(world);
  const second = await root.call(releases.create, {
    params: { app: 'victim' },
    body: { artifactId, processes: named('other') },
  });
  await world.deploy('victim', second.id);
  const written = { params: { app: 'mine' }, body: { artifactId, processes: named('special') } };
  const early = await mallory.call(releases.create, written);
  await world.deploy('victim', first.id);

  const body = { artifactId, processes: named('special') };
  await assert.rejects(own.push(mallory, 'mine', body), isDenied);
  const asMade = { params: { app: 'mine' }, body: { releaseId: early.id } };
  const deployed = own.pushing(mallory, 'mine', () => own.client.call(deployments.create, asMade));
  await assert.rejects(deployed, isDenied);
  await assert.rejects(own.client.call(releases.create, written), isDenied, 'for nobody');
  await assert.rejects(own.client.call(deployments.create, asMade), isDenied, 'for nobody');
  const ofOther = own.pushing(root, 'victim', () => own.client.call(releases.create, written));
  await assert.rejects(ofOther, isDenied, 'nor for who pushes to another app');
  await own.push(root, 'mine', body);
  await world.jobsOf('mine', 1);
});

test('a developer of both apps pushes what they share, whatever became of the other meanwhile', async () => {
  await using world = await startTestController();
  const { client: root } = world;
  const { release } = await world.deployApp('shop', named('special'));
  for (const name of ['copy', 'shop-admin']) await root.call(apps.create, { body: { name } });
  await using ann = await developer(world, 'ann', 'shop', 'copy', 'shop-admin');
  await using bob = await developer(world, 'bob', 'shop', 'copy');
  await using own = await runners(world);
  const { artifactId = '' } = release;
  const body = { artifactId, processes: named('special') };
  await ann.call(releases.create, { params: { app: 'copy' }, body });
  const next = await root.call(releases.create, { params: { app: 'shop' }, body: { env: { A: '1' } } });
  await world.deploy('shop', next.id);
  await own.push(bob, 'copy', body);
  await world.jobsOf('copy', 1);

  const wider = { artifactId, processes: { ...named('special'), 'admin-web': { ports: [{ port: 80 }] } } };
  await assert.rejects(own.push(bob, 'shop', wider), isDenied);
  await own.push(ann, 'shop', wider);
  await world.jobsOf('shop', 1);
});

test('a push of somebody who may nothing any more takes nothing of others, nor links it', async () => {
  await using world = await startTestController();
  const { client: root } = world;
  const { release } = await world.deployApp('victim', named('special'));
  await root.call(apps.create, { body: { name: 'copy' } });
  await using ann = await developer(world, 'ann', 'victim', 'copy');
  await using own = await runners(world);
  const { artifactId = '' } = release;
  const make = (processes: Processes) => () =>
    own.client.call(releases.create, { params: { app: 'copy' }, body: { artifactId, processes } });
  await own.pushing(ann, 'copy', make(named('copy-web', ['special'])));
  const afterwards = own.pushing(ann, 'copy', async () => {
    await root.call(users.remove, { params: { user: 'ann' } });
    return make(named('special'))();
  });
  await assert.rejects(afterwards, isDenied);
});
