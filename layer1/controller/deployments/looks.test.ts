import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deployments } from '../api.ts';
import { startTestController } from '../testing.ts';
import { beginDeployment } from './deployment-fixture.ts';
import { UpTimes } from './progress.ts';
import { RoutersWord } from './routers-word.ts';
import { stepDeployment } from './steps.ts';

test('a look at a deployment goes through the jobs of its app alone', async () => {
  await using world = await startTestController();
  await world.deployApp('shop', { web: {} });
  const next = await world.makeRelease('shop', { web: {} });
  await world.stopWorker();
  const id = await beginDeployment(world, 'shop', next.id);
  await world.jobsOf('shop', 1, ({ releaseId, state }) => releaseId === next.id && state === 'running');
  const { cell } = world.deps;
  const statuses = new Proxy(cell.statuses, {
    get(target, name) {
      if (name === 'snapshot') throw new Error('all jobs of the cluster were gone through');
      return Reflect.get(target, name) as unknown;
    },
  });
  const deps = { ...world.deps, cell: { ...cell, statuses } };
  const { signal } = new AbortController();
  await stepDeployment(deps, id, { signal, upTimes: new UpTimes(), word: new RoutersWord() });
  const { state } = await world.client.call(deployments.get, { params: { deployment: id } });
  assert.equal(state, 'finishing');
});
