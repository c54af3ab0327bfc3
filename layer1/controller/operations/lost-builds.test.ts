/** What the controller makes of builds that their runners say have failed, or say nothing of any more. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { cellKeys } from '@flynn/scheduler/cell';
import type { HostRecord } from '@flynn/scheduler/cell';
import { jobs } from '../api.ts';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';
import { create, get, join, newApp } from './lifecycle-fixture.ts';
import { lossOfSilent } from './lost-builds.ts';
import { operationType } from '../resources.ts';
import { silenceMs, OperationWatch } from './watch.ts';

const input = { sourceDigest: 'd' };
const params = { app: 'shop' };

async function startWorld(): Promise<TestController> {
  const world = await startTestController({ hosts: 1 });
  await world.deployApp('slug-builder', { build: { command: ['/build'] } }, { isSystem: true });
  await newApp(world.client, 'shop');
  return world;
}

/** One that is placed on a host which does not say anything of it, as one does not that loses its power just then. */
async function placeOnSilentHost(world: TestController, operationId: string): Promise<{ lose(): Promise<void> }> {
  const [real] = world.hosts;
  const settings = { put: cellKeys.hostSettings(real?.id ?? ''), value: JSON.stringify({ cordoned: true }) };
  const silent: HostRecord = {
    id: 'silent',
    address: '127.0.0.1',
    apiPort: 9,
    capacity: { memoryBytes: 64 * 1024 ** 3, cpuMillis: 64_000 },
    attributes: {},
    cordoned: false,
    startedAt: Date.now(),
  };
  const key = cellKeys.host(silent.id);
  await world.store.transact({ then: [settings, { put: key, value: JSON.stringify(silent) }] });
  await world.client.call(jobs.build, { params, body: { operationId, ...input } });
  await world.jobsOf('shop', 1, ({ hostId }) => hostId === silent.id);
  return {
    async lose() {
      await world.store.transact({ then: [{ delete: key }, { delete: settings.put }] });
      await world.jobsOf('shop', 0, ({ type }) => type === 'build');
    },
  };
}

test('a build that was placed on a host that is lost before it began is begun again', async () => {
  await using world = await startWorld();
  const runner = await join(world, 'r1');
  const [asked] = await create(world.client, 'shop', { input });
  const { id } = await runner.claim();
  assert.equal(id, asked?.id);
  const silent = await placeOnSilentHost(world, id);
  await silent.lose();
  await runner.append(id, 0, ['one', 'two']);
  const lost = await runner.finish(id, 'failed', { error: 'the build is gone' });
  assert.equal(lost.error, undefined);
  const [again] = await runner.assignments();
  assert.deepEqual([again?.id, again?.attempt, again?.losses?.length], [id, 2, 1]);
  const lines = again !== undefined && 'logLines' in again ? again.logLines : undefined;
  assert.equal(lines, 2, 'what it says goes behind what was said');
  await runner.acknowledge(again ?? { id });
  // Whoever was at it before has not heard of it yet.
  const ask = (losses?: number) =>
    world.client.call(jobs.build, {
      params,
      body: { operationId: id, ...input, ...(losses === undefined ? {} : { losses }) },
    });
  await assert.rejects(ask(), (error) => hasCode(error, 'conflict') && /begun again by others/.test(error.message));
  assert.match((await ask(1)).workloadId, /-build\.2-/);
  assert.equal((await runner.finish(id, 'complete')).state, 'complete');
});

test('a build that somebody stopped before it began is not', async () => {
  await using world = await startWorld();
  const runner = await join(world, 'r1');
  await create(world.client, 'shop', { input });
  const { id } = await runner.claim();
  await placeOnSilentHost(world, id);
  const [job] = await world.jobsOf('shop', 1, ({ type }) => type === 'build');
  await world.client.call(jobs.stop, { params: { ...params, job: job?.id ?? '' } });
  const { state, error } = await runner.finish(id, 'failed', { error: 'the build is gone' });
  assert.deepEqual([state, error], ['failed', 'the build is gone']);
});

test('a build whose runner is silent is begun again; a release, and what names its runner, fail as ever', async () => {
  await using world = await startTestController({ hasWorker: false });
  const { client, deps } = world;
  const { operations: mirror, writer, log } = deps;
  for (const name of ['a', 'b', 'c']) await newApp(client, name);
  const runner = await join(world, 'r1');
  const asked = [{ input }, { kind: 'release' as const, input }, { input, target: { runnerId: 'r1' } }];
  const ids: string[] = [];
  for (const [index, name] of ['a', 'b', 'c'].entries()) {
    const [one] = await create(client, name, asked[index] ?? {});
    ids.push(one?.id ?? '');
    await runner.claim();
  }
  await mirror.reached((await world.store.list('/flynn/resource/operation/')).revision);
  let steadyMs = 0;
  const lossOf = (operation: Parameters<typeof lossOfSilent>[1]) => lossOfSilent(deps, operation);
  const watch = new OperationWatch({
    operations: mirror,
    writer,
    log,
    now: deps.now,
    steadyNow: () => steadyMs,
    lossOf,
  });
  const signal = AbortSignal.timeout(60_000);
  await watch.sweep({ signal });
  steadyMs = silenceMs;
  await watch.sweep({ signal });
  const states = await Promise.all(ids.map(async (id) => (await get(client, id)).state));
  assert.deepEqual(states, ['queued', 'failed', 'failed']);
  const { status } = await deps.resources.get(operationType, ids[0] ?? '', {});
  assert.deepEqual(
    status.losses?.map(({ runnerId, hasRun }) => [runnerId, hasRun]),
    [['r1', false]],
  );
  await waitFor(() => deps.queue.heldBy('r1').size === 0, { what: 'the queue to know', deadlineMs: 30_000 });
});

test('a build that ended well is no harm to its host, when its runner is lost before it says so; one that failed may be', async () => {
  for (const [code, hasRun] of [
    [0, false],
    [137, true],
  ] as const) {
    await using world = await startWorld();
    const { client, deps } = world;
    const runner = await join(world, 'r1');
    await create(client, 'shop', { input });
    const { id } = await runner.claim();
    await client.call(jobs.build, { params, body: { operationId: id, ...input } });
    const [job] = await world.jobsOf('shop', 1, ({ state }) => state === 'running');
    await world.hosts[0]?.end(job?.id ?? '', code);
    await world.jobsOf('shop', 0, ({ state }) => state === 'running');
    const loss = lossOfSilent(deps, await deps.resources.get(operationType, id, {}));
    assert.deepEqual([loss?.runnerId, loss?.hostId, loss?.hasRun], ['r1', undefined, hasRun]);
  }
});
