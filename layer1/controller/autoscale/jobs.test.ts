import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger } from '@flynn/kit/log';
import { assignmentSchema, cellKeys, hostRecordSchema, jobStatusSchema, workloadSchema } from '@flynn/scheduler/cell';
import { evaluationSchema } from '@flynn/scheduler/evaluation';
import { createMemoryStore } from '@flynn/store/memory';
import { openCellView } from '../mirrors/cell-view.ts';
import { jobsOfWorkloads } from './jobs.ts';

test('of a type those that run and stay, those on hosts that are away, and those without a host are told apart', async () => {
  const demand = { memoryBytes: 1, cpuMillis: 0, family: 'f' };
  const group = (workloadId: string, ...jobs: [id: string, desired: string][]) => ({
    workloadId,
    version: 'v',
    demand,
    jobs: jobs.map(([id, desired], index) => ({ id, index, desired, createdAt: 1 })),
  });
  const status = (id: string, state: string, workloadId = 'w'): [string, unknown] => {
    const [hostId = ''] = id.split('-');
    const common = { hostId, version: 'v', createdAt: 1, isFinal: state === 'done' };
    return [cellKeys.jobStatus(hostId, id), jobStatusSchema.parse({ id, workloadId, state, ...common })];
  };
  const workload = (id: string, count: number): [string, unknown] => [
    cellKeys.workload(id),
    workloadSchema.parse({ id, kind: 'service', count, version: 'v', demand }),
  ];
  const capacity = { memoryBytes: 1, cpuMillis: 0 };
  const host = { id: 'h1', address: '192.0.2.1', apiPort: 1, capacity, cordoned: false, startedAt: 0 };
  const blocked = { id: 'e1', workloadId: 'w', cause: 'workload', state: 'blocked', createdAt: 1, reason: 'memory' };
  const objects: [string, unknown][] = [
    [cellKeys.host('h1'), hostRecordSchema.parse(host)],
    workload('w', 6),
    workload('other', 1),
    [
      cellKeys.assignment('h1', 'p1'),
      assignmentSchema.parse({
        planId: 'p1',
        groups: [group('w', ['h1-a', 'run'], ['h1-b', 'stop'], ['h1-c', 'run']), group('other', ['h1-o', 'run'])],
      }),
    ],
    [cellKeys.assignment('h2', 'p1'), assignmentSchema.parse({ planId: 'p1', groups: [group('w', ['h2-d', 'run'])] })],
    status('h1-a', 'running'),
    status('h1-b', 'running'),
    status('h1-c', 'starting'),
    status('h1-e', 'done'),
    status('h1-o', 'running', 'other'),
    status('h2-d', 'running'),
    [cellKeys.evaluation('e1'), evaluationSchema.parse(blocked)],
  ];
  await using store = createMemoryStore();
  await store.transact({ then: objects.map(([put, value]) => ({ put, value: JSON.stringify(value) })) });
  await using cell = await openCellView({ store, log: silentLogger() });
  const found = jobsOfWorkloads(cell, new Set(['w', 'new']));
  assert.deepEqual([...found.keys()], ['w']);
  const { running = [], ...rest } = found.get('w') ?? {};
  assert.deepEqual(
    running.map(({ id, hostId }) => [id, hostId]),
    [['h1-a', 'h1']],
  );
  assert.deepEqual(rest, { uncertain: 1, waiting: 3, whyWaiting: 'memory' });
});
