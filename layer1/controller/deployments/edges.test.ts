/** Deployments of what is hardly anything, and of an app that goes meanwhile. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { apps, formations } from '../api.ts';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';
import { beginDeployment, deploymentReaches } from './deployment-fixture.ts';

let world: TestController;
before(async () => {
  world = await startTestController();
});
after(async () => {
  await world?.[Symbol.asyncDispose]();
});

const volume = { web: { volumes: [{ name: 'data', path: '/data' }] } };

test('a release without processes takes the place of one with, and the other way round', async () => {
  await world.deployApp('bare', { web: {} });
  const none = await world.makeRelease('bare', {});
  assert.equal((await world.deploy('bare', none.id)).state, 'complete');
  await world.jobsOf('bare', 0);
  const some = await world.makeRelease('bare', { web: {} });
  assert.equal((await world.deploy('bare', some.id)).state, 'complete');
  await world.jobsOf('bare', 1);
});

test('what is scaled to nothing is deployed as nothing, with a volume too, and is scaled up as the new release', async () => {
  for (const [app, processes] of Object.entries({ idle: { web: {} }, 'idle-data': volume })) {
    await world.deployApp(app, processes);
    await world.client.call(formations.put, { params: { app, release: 'v1' }, body: { processes: { web: 0 } } });
    await world.jobsOf(app, 0);
    const next = await world.makeRelease(app, processes);
    const ended = await world.deploy(app, next.id);
    assert.equal(ended.state, 'complete', ended.error);
    await world.client.call(formations.put, { params: { app, release: next.id }, body: { processes: { web: 1 } } });
    const [job] = await world.jobsOf(app, 1);
    assert.equal(job?.releaseId, next.id);
  }
});

test('an app that is deleted while its last two deployments are ending leaves nothing', async () => {
  world.setBehaviour(() => ({ is: 'run', lingers: true }));
  const { app, release } = await world.deployApp('going', { web: {} });
  const [old] = await world.jobsOf('going', 1);
  world.setBehaviour(() => ({ is: 'run' }));
  const releases = [await world.makeRelease('going', { web: {} }), await world.makeRelease('going', { web: {} })];
  for (const { id } of releases) {
    const deployment = await beginDeployment(world, 'going', id);
    await deploymentReaches(world, deployment, ({ state }) => state === 'finishing');
  }
  assert.equal(old?.releaseId, release.id);
  const removal = world.client.call(apps.remove, { params: { app: 'going' } });
  await world.hosts.find(({ id }) => id === old?.hostId)?.end(old?.id ?? '', 0);
  await removal;
  const left = async () => (await world.store.list('/flynn/')).entries.filter(({ key }) => key.includes(app.id));
  await waitFor(async () => (await left()).length === 0, {
    what: 'the end of all of it',
    deadlineMs: 30_000,
    intervalMs: 20,
  });
});
