import assert from 'node:assert/strict';
import { test } from 'node:test';
import { apps, deployments } from '../api.ts';
import { startTestController } from '../testing.ts';
import { beginDeployment } from './deployment-fixture.ts';
import { UpTimes } from './progress.ts';
import { RoutersWord } from './routers-word.ts';
import { stepDeployment } from './steps.ts';

test('a clock that is ahead, or put forward, makes no deployment fail: its time is counted by what a worker saw', async () => {
  await using world = await startTestController({ behave: () => ({ is: 'hang' }) });
  await world.client.call(apps.create, { body: { name: 'shop' } });
  const { id: releaseId } = await world.makeRelease('shop', { web: {} });
  await world.stopWorker();
  const id = await beginDeployment(world, 'shop', releaseId);
  let steadyMs = 0;
  const upTimes = new UpTimes(() => steadyMs);
  const look = async (aheadMs: number) => {
    const deps = { ...world.deps, now: () => Date.now() + aheadMs };
    const { signal } = new AbortController();
    await stepDeployment(deps, id, { signal, upTimes, word: new RoutersWord() });
    return (await world.client.call(deployments.get, { params: { deployment: id } })).state;
  };
  assert.equal(await look(130_000), 'running', 'the worker has a clock that is ahead of theirs who began it');
  steadyMs = 119_000;
  assert.equal(await look(86_400_000), 'running', 'it is put forward');
  steadyMs = 121_000;
  assert.equal(await look(-60_000), 'failed', 'its time is over by the clock that nobody puts');
});
