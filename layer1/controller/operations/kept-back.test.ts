/** Releases and deployments that would wait for a deployment of their app are given to no runner until they can be done. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { deployments, releases } from '../api.ts';
import { deploymentControls } from '../deployments/api-controls.ts';
import { rolloutSchema } from '../deployments/rollout-settings.ts';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';
import { operations } from './api.ts';
import { keptBack } from './kept-back.ts';
import { create, get, join, newApp } from './lifecycle-fixture.ts';

const params = { app: 'shop' };

test('a release waits until the one before is live, a deployment until it has ended, and neither for people', () => {
  const rollout = rolloutSchema.parse({ strategy: 'canary' });
  const cases = [
    'pending',
    'releasing',
    'running',
    'rolling_back',
    'finishing',
    'complete',
    'failed',
    'paused',
  ] as const;
  assert.deepEqual(
    cases.map((state) => keptBack({ state, rollout }).join()),
    [...cases.slice(0, 4).map(() => 'release,deploy'), 'deploy', '', '', ''],
  );
  assert.deepEqual(keptBack({ state: 'canary', rollout }), []);
  // Beside its last old jobs another may begin.
  assert.deepEqual(keptBack({ state: 'finishing', rollout: rolloutSchema.parse({}) }), []);
  const byItself = { ...rollout, autoPromoteMs: 60_000 };
  assert.deepEqual(keptBack({ state: 'canary', rollout: byItself }), ['release', 'deploy']);
});

/** A deployment whose release line runs until `finish`. */
async function deployLong(world: TestController) {
  const { client } = world;
  const { release } = await world.deployApp('shop', { web: {} });
  const body = {
    scripts: { release: 'migrate' },
    ...(release.artifactId === undefined ? {} : { artifactId: release.artifactId }),
  };
  const next = await client.call(releases.create, { params, body });
  const deployment = await client.call(deployments.create, { params, body: { releaseId: next.id } });
  const isTask = ({ workloadId, state }: { workloadId: string; state: string }) =>
    workloadId === deployment.releaseJobId && state === 'running';
  const [job] = await world.jobsOf('shop', 1, isTask);
  const finish = async () => world.hosts.find(({ id }) => id === job?.hostId)?.end(job?.id ?? '', 0);
  return { id: deployment.id, finish };
}

async function firstLine(world: TestController, operation: string): Promise<{ id: string | undefined; text: string }> {
  const options = { signal: AbortSignal.timeout(60_000) };
  for await (const { id, data } of world.client.events(operations.log, { params: { operation } }, options)) {
    return { id, text: (data as { text: string }).text };
  }
  return assert.fail('there was no line');
}

test('what waits for a long deployment takes nobody’s slot, says what it waits for, and is given away after it', async () => {
  await using world = await startTestController();
  const long = await deployLong(world);
  await newApp(world.client, 'blog');
  const [release, deploy] = await create(world.client, 'shop', { kind: 'release' }, { kind: 'deploy', id: 'd' });
  const [build] = await create(world.client, 'blog', {});
  const runner = await join(world, 'r1', { slots: 2 });
  const given = await runner.assignments(2);
  assert.deepEqual(
    given.map(({ id }) => id),
    [build?.id],
    'the only one that can go on, though it is the newest',
  );
  const { state, waitsFor } = await get(world.client, release?.id ?? '');
  assert.deepEqual(
    [state, waitsFor],
    ['queued', `deployment ${long.id} of the app, which goes on: see flynn deployment`],
  );
  const told = { id: undefined, text: '       Waiting for another deployment of this app to end' };
  assert.deepEqual(await firstLine(world, deploy?.id ?? ''), told);
  const next = runner.claim();
  await long.finish();
  assert.equal((await next).id, release?.id);
  await runner.append(release?.id ?? '', 0, ['made']);
  assert.deepEqual(await firstLine(world, release?.id ?? ''), { id: '0', text: 'made' });
  await runner.finish(release?.id ?? '', 'complete');
  assert.equal((await runner.claim()).id, 'd');
});

test('what would wait for people is given away in the moment in which they are needed', async () => {
  await using world = await startTestController();
  await world.deployApp('shop', { web: {} });
  world.setBehaviour(() => ({ is: 'hang' }));
  const next = await world.client.call(releases.create, { params, body: { env: { A: '1' } } });
  const { id } = await world.client.call(deployments.create, { params, body: { releaseId: next.id } });
  const [release] = await create(world.client, 'shop', { kind: 'release' });
  await waitFor(async () => (await get(world.client, release?.id ?? '')).waitsFor?.startsWith('deployment') === true, {
    what: 'the release to be kept back',
    deadlineMs: 30_000,
    intervalMs: 5,
  });
  const runner = await join(world, 'r1');
  const claimed = runner.claim();
  await world.client.call(deploymentControls.pause, { params: { deployment: id } });
  assert.equal((await claimed).id, release?.id);
});
