import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cellKeys } from '@flynn/scheduler/cell';
import { deploymentType } from '../resources.ts';
import { startTestController } from '../testing.ts';
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
