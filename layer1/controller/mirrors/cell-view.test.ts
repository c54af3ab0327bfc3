import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger } from '@flynn/kit/log';
import { assignmentSchema, cellKeys, hostRecordSchema, jobStatusSchema } from '@flynn/scheduler/cell';
import { evaluationSchema } from '@flynn/scheduler/evaluation';
import type { HostRecord, JobStatus } from '@flynn/scheduler/cell';
import type { Evaluation } from '@flynn/scheduler/evaluation';
import { createMemoryStore } from '@flynn/store/memory';
import { openCellView, placedJobs, reasonsOf, seenStatuses, takesJobs } from './cell-view.ts';
import type { CellView } from './cell-view.ts';

async function viewOf(objects: Record<string, unknown>, look: (cell: CellView) => void): Promise<void> {
  await using store = createMemoryStore();
  await store.transact({
    then: Object.entries(objects).map(([put, value]) => ({ put, value: JSON.stringify(value) })),
  });
  await using cell = await openCellView({ store, log: silentLogger() });
  look(cell);
}

let madeAt = 0;
const evaluation = (workloadId: string, state: Evaluation['state'], reason?: string): Evaluation => {
  madeAt += 1;
  const id = `e${String(madeAt).padStart(3, '0')}`;
  return evaluationSchema.parse({ id, workloadId, cause: 'workload', state, createdAt: madeAt, reason });
};

const histories: { title: string; evaluations: Evaluation[]; reason: string | undefined }[] = [
  { title: 'nothing is known', evaluations: [], reason: undefined },
  { title: 'it is not looked at yet', evaluations: [evaluation('w', 'pending')], reason: undefined },
  { title: 'it waits', evaluations: [evaluation('w', 'blocked', 'memory')], reason: 'memory' },
  {
    title: 'it waits, and something else about it is through',
    evaluations: [evaluation('w', 'blocked', 'memory'), evaluation('w', 'complete')],
    reason: 'memory',
  },
  {
    title: 'it waited for something else before',
    evaluations: [evaluation('w', 'cancelled', 'cpu'), evaluation('w', 'blocked', 'memory')],
    reason: 'memory',
  },
  {
    title: 'it failed, and is tried again later',
    evaluations: [evaluation('w', 'failed', 'too many conflicts'), evaluation('w', 'pending')],
    reason: 'too many conflicts',
  },
  {
    title: 'it failed, and all is well since',
    evaluations: [evaluation('w', 'failed', 'too many conflicts'), evaluation('w', 'complete')],
    reason: undefined,
  },
  { title: 'a newer one took its place', evaluations: [evaluation('w', 'cancelled', 'newer')], reason: undefined },
  { title: 'another workload waits', evaluations: [evaluation('other', 'blocked', 'memory')], reason: undefined },
];

for (const { title, evaluations, reason } of histories) {
  test(`why a workload waits: ${title}`, () =>
    viewOf(Object.fromEntries(evaluations.map((one) => [cellKeys.evaluation(one.id), one])), (cell) => {
      assert.equal(reasonsOf(cell).get('w'), reason);
    }));
}

test('jobs are told with their workload, version and host; once told to stop, a job is to stop', () => {
  const demand = { memoryBytes: 1, cpuMillis: 0, family: 'f' };
  const group = (workloadId: string, jobs: unknown[]) => ({ workloadId, version: 'v', demand, jobs });
  const job = (id: string, index: number, desired = 'run') => ({ id, index, desired, createdAt: 5 });
  const assignment = (planId: string, groups: unknown[]) => assignmentSchema.parse({ planId, groups });
  return viewOf(
    {
      [cellKeys.assignment('h1', 'p1')]: assignment('p1', [group('w', [job('h1-a', 0, 'stop'), job('h1-b', 1)])]),
      [cellKeys.assignment('h1', 'p2')]: assignment('p2', [group('w', [job('h1-a', 0)])]),
      [cellKeys.assignment('h2', 'p2')]: assignment('p2', [group('x', [job('h2-c', 0)])]),
    },
    (cell) => {
      const told = placedJobs(cell)
        .sort((a, b) => (a.id < b.id ? -1 : 1))
        .map((placed) => Object.entries(placed).sort(([a], [b]) => (a < b ? -1 : 1)));
      const whole = (id: string, hostId: string, workloadId: string, index: number, desired: string) =>
        Object.entries({ createdAt: 5, desired, hostId, id, index, version: 'v', workloadId });
      assert.deepEqual(told, [
        whole('h1-a', 'h1', 'w', 0, 'stop'),
        whole('h1-b', 'h1', 'w', 1, 'run'),
        whole('h2-c', 'h2', 'x', 0, 'run'),
      ]);
    },
  );
});

const host = (id: string, cordoned = false): HostRecord =>
  hostRecordSchema.parse({
    id,
    address: '192.0.2.1',
    apiPort: 1,
    capacity: { memoryBytes: 1, cpuMillis: 0 },
    cordoned,
    startedAt: 0,
  });

test('a job of a host that is away is uncertain while it is assigned there, and lost afterwards', () => {
  const status = (id: string, change: Partial<JobStatus> = {}): Record<string, JobStatus> => {
    const [hostId = ''] = id.split('-');
    const common = { hostId, workloadId: 'w', version: 'v', createdAt: 1, state: 'running', isFinal: false };
    return { [cellKeys.jobStatus(hostId, id)]: jobStatusSchema.parse({ id, ...common, ...change }) };
  };
  const demand = { memoryBytes: 1, cpuMillis: 0, family: 'f' };
  const jobs = ['h2-kept', 'h2-troubled'].map((id, index) => ({ id, index, createdAt: 1 }));
  return viewOf(
    {
      [cellKeys.host('h1')]: host('h1'),
      [cellKeys.assignment('h2', 'p')]: assignmentSchema.parse({
        planId: 'p',
        groups: [{ workloadId: 'w', version: 'v', demand, jobs }],
      }),
      ...status('h1-a'),
      ...status('h2-kept'),
      ...status('h2-troubled', { state: 'crashed', error: 'killed: out of memory' }),
      ...status('h2-taken'),
      ...status('h2-ended', { state: 'done', isFinal: true, exitCode: 0 }),
    },
    (cell) => {
      const seen = seenStatuses(cell).map(({ id, state, isFinal, isUncertain, error }) => [
        id,
        `${state}${isFinal ? ' for good' : ''}${isUncertain ? '?' : ''}`,
        error,
      ]);
      assert.deepEqual(
        seen.sort(([a], [b]) => (String(a) < String(b) ? -1 : 1)),
        [
          ['h1-a', 'running', undefined],
          ['h2-ended', 'done for good', undefined],
          ['h2-kept', 'running?', 'its host h2 is away'],
          ['h2-taken', 'lost for good', 'its host h2 is away'],
          ['h2-troubled', 'crashed?', 'its host h2 is away; before that: killed: out of memory'],
        ],
      );
      assert.deepEqual(
        seenStatuses(cell, ({ id }) => id === 'h1-a').map(({ id }) => id),
        ['h1-a'],
      );
    },
  );
});

test('a host takes jobs unless it, or somebody, says otherwise', () => {
  const drain = { startedAt: 1 };
  return viewOf(
    {
      [cellKeys.hostSettings('cordoned')]: { cordoned: true },
      [cellKeys.hostSettings('draining')]: { drain },
      [cellKeys.hostSettings('tagged')]: { tags: { rack: 'a' } },
    },
    (cell) => {
      const hosts = [host('plain'), host('tagged'), host('cordoned'), host('draining'), host('itself', true)];
      assert.deepEqual(
        hosts.filter((one) => takesJobs(cell, one)).map(({ id }) => id),
        ['plain', 'tagged'],
      );
    },
  );
});
