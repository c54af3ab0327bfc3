import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cellKeys } from '@flynn/scheduler/cell';
import { deploymentType } from '../resources.ts';
import { startTestController } from '../testing.ts';
import { slowlyTold } from '../testing/slow-watch.ts';
import { cleanUp, keptByApp } from './clean-up.ts';

const { signal } = new AbortController();
const at = (second: number): string => new Date(second * 1_000).toISOString();

test('of the app that is looked at the oldest deployments and one-off jobs go that have ended, of others nothing', async () => {
  let second = 0;
  await using world = await startTestController({ hosts: 0, hasWorker: false });
  const { resources, store, deployments, cell } = world.deps;
  const add = async (id: string, appId: string, endedAt?: string): Promise<void> => {
    second += 1;
    const spec = { appId, newReleaseId: 'r', counts: {}, oldCounts: {}, knownJobs: [], timeoutMs: 1_000 };
    const ended = endedAt === undefined ? { state: 'running' as const } : { state: 'complete' as const, endedAt };
    const { resource } = resources.draft(deploymentType, { id, spec, status: { progress: {}, ...ended } });
    const { revision: _, ...record } = { ...resource, createdAt: at(second) };
    const value = JSON.stringify({ version: deploymentType.version, ...record });
    await store.transact({ then: [{ put: `/flynn/resource/deployment/${id}`, value }] });
  };
  await add('live', 'a');
  for (let count = 0; count < 52; count += 1) await add(`a${count}`, 'a', at(second));
  for (let count = 0; count < 3; count += 1) await add(`b${count}`, 'b', at(0));
  const demand = { cpuMillis: 1, memoryBytes: 1, diskBytes: 0, family: 'f' };
  const jobs = Array.from({ length: 30 }, (_, count) => ['a', 'b'].map((app) => `${app}-run-${10 + count}`)).flat();
  const { revision } = await store.transact({
    then: jobs.map((id) => ({
      put: cellKeys.workload(id),
      value: JSON.stringify({ id, kind: 'ephemeral', count: id === 'a-run-39' ? 1 : 0, version: '1', demand }),
    })),
  });
  await Promise.all([deployments.reached(revision, { signal }), cell.workloads.reached(revision, { signal })]);
  const leader = { put: '/flynn/leader/test', value: '1' };
  const epoch = { key: leader.put, createRevision: (await store.transact({ then: [leader] })).revision };
  using kept = keptByApp(world.deps);
  await cleanUp(world.deps, 'a', kept, { signal, epoch });
  const left = (await resources.list(deploymentType)).map(({ id }) => id);
  assert.deepEqual([left.length, left.includes('live'), left.includes('b0')], [54, true, true]);
  assert.deepEqual([left.includes('a0'), left.includes('a1'), left.includes('a2')], [false, false, true]);
  const { entries } = await store.list(cellKeys.workloads);
  const ofApp = (app: string) => entries.filter(({ key }) => key.startsWith(`${cellKeys.workloads}${app}-run-`)).length;
  assert.deepEqual([ofApp('a'), ofApp('b')], [1, 30], 'one has not ended');
});

test('a job of more than a day stays to be asked how it ended, where its end is heard of after that nobody wants it', async () => {
  const store = slowlyTold(cellKeys.status);
  await using world = await startTestController({ store, hosts: 0, hasWorker: false });
  const { cell, now } = world.deps;
  const dayMs = 24 * 3_600_000;
  const demand = { cpuMillis: 1, memoryBytes: 1, diskBytes: 0, family: 'f' };
  const workload = { id: 'a-run-1', kind: 'ephemeral', count: 0, version: '1', demand };
  const status = {
    id: 'h-1',
    hostId: 'h',
    workloadId: 'a-run-1',
    version: '1',
    meta: {},
    createdAt: now() - 2 * dayMs,
  };
  const ended = { ...status, state: 'done', isFinal: true, exitCode: 0, endedAt: now() };
  const put = (key: string, value: object) => store.transact({ then: [{ put: key, value: JSON.stringify(value) }] });
  const running = await put(cellKeys.jobStatus('h', 'h-1'), { ...status, state: 'running', isFinal: false });
  await cell.statuses.reached(running.revision);
  await put(cellKeys.jobStatus('h', 'h-1'), ended);
  const { revision } = await put(cellKeys.workload('a-run-1'), workload);
  await cell.workloads.reached(revision);
  using kept = keptByApp(world.deps);
  const leader = { put: '/flynn/leader/test', value: '1' };
  const epoch = { key: leader.put, createRevision: (await store.transact({ then: [leader] })).revision };
  await cleanUp(world.deps, 'a', kept, { signal, epoch });
  assert.notEqual(await store.get(cellKeys.workload('a-run-1')), undefined);
});
