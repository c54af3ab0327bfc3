import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { apps, deployments } from '../api.ts';
import type { Release } from '../model.ts';
import { appType } from '../resources.ts';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';
import { beginDeployment, deploymentReaches } from './deployment-fixture.ts';
import { hasOldJobs } from './former.ts';

let world: TestController;
before(async () => {
  world = await startTestController();
});
after(async () => {
  await world?.[Symbol.asyncDispose]();
});

const isBusy = (error: unknown) => hasCode(error, 'conflict') && /is under way: wait/.test(error.message);
const begin = (app: string, { id }: Release) => beginDeployment(world, app, id);
const reach = (id: string, state: string) => deploymentReaches(world, id, (one) => one.state === state);
const get = (id: string) => world.client.call(deployments.get, { params: { deployment: id } });

/** Releases of an app, whose first one's jobs take as long to end as it pleases the test. */
async function lingering(app: string, count: number): Promise<Release[]> {
  world.setBehaviour(({ template }) => ({ is: 'run', lingers: template.meta['flynn.app_name'] === app }));
  const { release: first } = await world.deployApp(app, { web: {} });
  await world.jobsOf(app, 1, ({ state }) => state === 'running');
  world.setBehaviour(() => ({ is: 'run' }));
  const others: Release[] = [];
  for (let at = 1; at < count; at += 1) others.push(await world.makeRelease(app, { web: {} }));
  return [first, ...others];
}

/** What still runs of the release ends. */
async function endOf(app: string, { id }: Release): Promise<void> {
  for (const job of await world.jobsOf(app, 1, ({ releaseId }) => releaseId === id)) {
    await world.hosts.find((host) => host.id === job.hostId)?.end(job.id, 0);
  }
}

const isLive = (app: string, { id }: Release) =>
  waitFor(async () => (await world.client.call(apps.get, { params: { app } })).releaseId === id, {
    what: `${app} to be of ${id}`,
    deadlineMs: 30_000,
    intervalMs: 5,
  });

test('the next deployment begins while old jobs are ending, and waits for them at its own end', async () => {
  const [first, second, third, fourth] = await lingering('shop', 4);
  assert.ok(first && second && third && fourth);
  const before = await begin('shop', second);
  await reach(before, 'finishing');
  const next = await begin('shop', third);
  const ended = await get(before);
  assert.equal(ended.state, 'complete');
  assert.notEqual(ended.endedAt, undefined);
  await isLive('shop', third);
  await world.jobsOf('shop', 1, ({ releaseId }) => releaseId === first.id);
  assert.equal((await reach(next, 'finishing')).state, 'finishing', 'the first one has not ended');
  await assert.rejects(begin('shop', fourth), isBusy, 'pushes do not add up');
  await endOf('shop', first);
  await reach(next, 'complete');
  await reach(await begin('shop', fourth), 'complete');
});

test('who goes back to what is ending waits, and so does who has another strategy', async () => {
  const [first, second, third] = await lingering('back', 3);
  assert.ok(first && second && third);
  await reach(await begin('back', second), 'finishing');
  await assert.rejects(begin('back', first), isBusy);
  const body = { releaseId: third.id, rollout: { strategy: 'one-down-one-up' as const } };
  await assert.rejects(world.client.call(deployments.create, { params: { app: 'back' }, body }), isBusy);
  await endOf('back', first);
});

test('one that fails meanwhile leaves the live release, and old jobs keep what they have until they have ended', async () => {
  const [first, second, third] = await lingering('sad', 3);
  assert.ok(first && second && third);
  await reach(await begin('sad', second), 'finishing');
  world.setBehaviour(({ template }) =>
    template.meta['flynn.release'] === third.id ? { is: 'crash', code: 1 } : { is: 'run' },
  );
  await reach(await begin('sad', third), 'failed');
  const app = await world.deps.resources.lookup(appType, 'sad');
  assert.deepEqual([app.status.releaseId, app.status.deploymentId], [second.id, undefined]);
  assert.equal(hasOldJobs(world.deps.cell, app), true);
  await endOf('sad', first);
  await waitFor(() => !hasOldJobs(world.deps.cell, app), { what: 'their end', deadlineMs: 30_000, intervalMs: 5 });
});
