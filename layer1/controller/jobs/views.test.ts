import assert from 'node:assert/strict';
import { test } from 'node:test';
import { jobStatusSchema, workloadSchema } from '@flynn/scheduler/cell';
import type { Workload } from '@flynn/scheduler/cell';
import { findJob, jobOfStatus, jobsOfApp } from './views.ts';
import type { Cell } from './views.ts';
import type { SeenStatus } from '@flynn/scheduler/lost-jobs';
import { expiredOneOffs } from '../collection/one-off-cleanup.ts';

const meta = { 'flynn.app': 'a', 'flynn.release': 'r', 'flynn.type': 'web' };
const demand = { memoryBytes: 1, cpuMillis: 0, family: 'a' };
const workload = (id: string, change: Partial<Workload> = {}): Workload =>
  workloadSchema.parse({ id, kind: 'service', count: 1, version: 'v', demand, ...change });
const status = (id: string, workloadId: string, change: Partial<SeenStatus> = {}): SeenStatus => ({
  ...jobStatusSchema.parse({
    id,
    hostId: 'h1',
    workloadId,
    version: 'v',
    meta,
    state: 'running',
    isFinal: false,
    createdAt: 1_000,
    ...change,
  }),
  isUncertain: change.isUncertain ?? false,
});
const placed = (id: string, workloadId: string, desired: 'run' | 'stop' = 'run'): Cell['placed'][number] => ({
  id,
  workloadId,
  version: 'v',
  index: 0,
  desired,
  createdAt: 2_000,
  hostId: 'h1',
});
/** Of version v of any workload. */
const metaOf: Cell['metaOf'] = ({ version }) => (version === 'v' ? meta : {});
const isHostThere = () => true;
const options = { all: false, nowMs: 3_000 };

test('of a job that ended and is started again one sees when', () => {
  const nextStartAt = 33_000;
  const jobs = [
    status('h1-a', 'a-w', { state: 'crashed', nextStartAt }),
    status('h1-b', 'a-w', { state: 'crashed', nextStartAt, isFinal: true }),
  ].map(jobOfStatus);
  assert.deepEqual(
    jobs.map((job) => job.nextStartAt),
    [new Date(nextStartAt).toISOString(), undefined],
  );
});

test('a job is shown once: by its status, else by its placement, else by what waits', () => {
  const cell: Cell = {
    workloads: [workload('a-w', { count: 3 })],
    placed: [placed('h1-a', 'a-w'), placed('h1-b', 'a-w')],
    statuses: [status('h1-a', 'a-w')],
    metaOf,
    isHostThere,
    reasons: new Map([['a-w', '2 placed, 1 waiting: memory']]),
  };
  assert.deepEqual(
    jobsOfApp('a', cell, options).map(({ id, state, error }) => [id, state, error]),
    [
      ['a-w', 'pending', '2 placed, 1 waiting: memory'],
      ['h1-b', 'pending', undefined],
      ['h1-a', 'running', undefined],
    ],
  );
  for (const job of jobsOfApp('a', cell, options)) {
    assert.deepEqual([job.appId, job.releaseId, job.type, job.workloadId], ['a', 'r', 'web', 'a-w']);
  }
  assert.deepEqual(jobsOfApp('b', cell, options), []);
});

test('jobs that wait for a place have ids of their own, the first its workload’s', () => {
  const cell: Cell = {
    workloads: [workload('a-w', { count: 4 })],
    placed: [placed('h1-a', 'a-w')],
    statuses: [],
    metaOf,
    isHostThere,
    reasons: new Map(),
  };
  const found = jobsOfApp('a', cell, options);
  assert.deepEqual(
    found.map(({ id, workloadId }) => [id, workloadId]),
    [
      ['a-w', 'a-w'],
      ['a-w.2', 'a-w'],
      ['a-w.3', 'a-w'],
      ['h1-a', 'a-w'],
    ],
  );
  assert.equal(findJob(found, 'a-w.3')?.id, 'a-w.3');
});

test('what ended is shown only when asked for; a job that is started again has not ended', () => {
  const cell: Cell = {
    metaOf,
    isHostThere,
    reasons: new Map(),
    workloads: [],
    placed: [],
    statuses: [
      status('h1-a', 'a-w', { state: 'done', isFinal: true, exitCode: 0 }),
      status('h1-b', 'a-w', { state: 'done', restarts: 2 }),
      status('h1-c', 'a-w', { state: 'crashed', isFinal: true }),
    ],
  };
  assert.deepEqual(
    jobsOfApp('a', cell, options).map(({ id }) => id),
    ['h1-b'],
  );
  assert.equal(jobsOfApp('a', cell, { ...options, all: true }).length, 3);
});

test('what was lost with its host has ended, and what was placed on a host that is away says so', () => {
  const cell: Cell = {
    metaOf,
    isHostThere: (hostId) => hostId !== 'h1',
    reasons: new Map(),
    workloads: [workload('a-w', { count: 2 })],
    placed: [placed('h1-b', 'a-w')],
    statuses: [status('h1-a', 'a-w', { state: 'lost', isFinal: true })],
  };
  assert.deepEqual(
    jobsOfApp('a', cell, options).map(({ id, state, error }) => [id, state, error]),
    [
      ['a-w', 'pending', undefined],
      ['h1-b', 'pending', 'its host h1 is away'],
    ],
  );
  assert.equal(findJob(jobsOfApp('a', cell, { ...options, all: true }), 'h1-a')?.state, 'lost');
});

test('a one-off job that ended does not wait for a place again', () => {
  const cell: Cell = {
    metaOf,
    isHostThere,
    reasons: new Map(),
    workloads: [workload('a-w', { kind: 'ephemeral' })],
    placed: [],
    statuses: [status('h1-a', 'a-w', { state: 'failed', isFinal: true, exitCode: 2 })],
  };
  assert.deepEqual(jobsOfApp('a', cell, options), []);
  const all = jobsOfApp('a', cell, { ...options, all: true });
  assert.equal(findJob(all, 'a-w')?.exitCode, 2, 'it is found by its workload');
});

test('ended one-off jobs are kept up to 25 for a day; running ones are left alone', () => {
  const dayMs = 24 * 60 * 60_000;
  const ids = Array.from({ length: 30 }, (_, index) => `run${String(index).padStart(2, '0')}`);
  const workloads = [
    ...ids.map((id) => workload(id, { kind: 'ephemeral', count: 0 })),
    workload('live', { kind: 'ephemeral' }),
    workload('web'),
  ];
  const statuses = ids.map((id, index) =>
    status(`h1-${id}`, id, { state: 'done', isFinal: true, endedAt: 10_000 + index }),
  );
  assert.deepEqual(
    expiredOneOffs(workloads, statuses, 20_000).toSorted((x, y) => (x < y ? -1 : 1)),
    ids.slice(0, 5),
  );
  assert.deepEqual(expiredOneOffs(workloads, statuses, 10_010 + dayMs).length, 11);
  assert.equal(expiredOneOffs(workloads, statuses, 30_000 + dayMs).length, 30);
});
