/** Columns against the entries themselves, whatever comes in whatever order. */
import type { Entry } from '@flynn/store/store';
import { openTestStore } from '@flynn/store/testing';
import { shortId } from '@flynn/kit/ids';
import * as fc from 'fast-check';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cellKeys, cellPrefix, jobStates } from '../cell.ts';
import type { Assignment, JobStatus } from '../cell.ts';
import { evaluationWrite, makeEvaluation } from '../evaluations.ts';
import { cellOf, hostOf, placedOf, statusOf, workloadOf } from '../testing.ts';
import { CellColumns } from './cell-columns.ts';
import { CompactIds } from './compact-ids.ts';
import { RowIndex, mixHash } from './row-index.ts';

const onFault = (key: string, error: unknown) => assert.fail(`${key}: ${String(error)}`);

test('an id comes back as it was, in twelve bytes when shortId made it', () => {
  const ids = new CompactIds();
  const made = fc.constant(null).map(shortId);
  const number = fc.nat().map((n) => n.toString(36));
  const id = fc.oneof(
    made,
    fc.tuple(made, number).map((parts) => parts.join('-')),
    fc.string({ minLength: 1 }),
  );
  const edges = [
    'aaaaaaaaaaaa',
    '999999999999',
    'aaaaaaaaaaaa-0',
    'aaaaaaaaaaaa-01',
    'aaaaaaaaaaaa-',
    'aaaaaaaaaaaa-zzzzzzz',
  ];
  fc.assert(
    fc.property(fc.oneof(id, fc.constantFrom(...edges)), (text) => {
      const { high, low, number } = ids.take(text);
      assert.equal(ids.textOf(high, low, number), text);
      assert.deepEqual(ids.find(text), { high, low, number });
      ids.free(high, low);
    }),
  );
  assert.equal(ids.find('not held by anyone'), undefined);
});

test('a row index finds what was added and not removed', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.boolean(), fc.nat(40)), { maxLength: 300 }), (steps) => {
      // Few different hashes: runs of probes get long.
      const index = new RowIndex((row) => mixHash(row % 5, 0, 0));
      const there = new Set<number>();
      for (const [isAdd, row] of steps) {
        if (isAdd && !there.has(row)) index.add(row);
        if (!isAdd) index.remove(row);
        if (isAdd) there.add(row);
        else there.delete(row);
        for (let each = 0; each <= 40; each += 1) {
          assert.equal(
            index.find(mixHash(each % 5, 0, 0), (found) => found === each),
            there.has(each) ? each : -1,
          );
        }
      }
    }),
    { numRuns: 50, seed: 1 },
  );
});

const hostIds = ['h1', 'h2'];
const planIds = ['p1', 'aaaaaaaaaaab'];
const workloads = ['web', 'db'].map((id) => workloadOf({ id, version: 'v1' }));

type Step =
  | { do: 'assign'; host: string; plan: string; jobs: { id: string; stop: boolean }[] }
  | { do: 'status'; host: string; job: string; state: JobStatus['state']; isFinal: boolean; goesLast: boolean }
  | { do: 'delete'; key: string }
  | { do: 'workload'; workload: number; count: number }
  | { do: 'evaluate'; id: string; workload: number; state: 'pending' | 'blocked' | 'complete' };

const jobIds = ['a', 'b', 'c', 'bbbbbbbbbbbb-1'];
/** A job is of one workload for good. */
const workloadAt = (jobId: string) => jobIds.indexOf(jobId) % workloads.length;
const keys = [
  ...hostIds.flatMap((host) => [
    ...planIds.map((plan) => cellKeys.assignment(host, plan)),
    ...jobIds.map((job) => cellKeys.jobStatus(host, `${host}-${job}`)),
  ]),
  ...workloads.map(({ id }) => cellKeys.workload(id)),
  ...['e1', 'e2'].map((id) => cellKeys.evaluation(id)),
];
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({
    do: fc.constant('assign' as const),
    host: fc.constantFrom(...hostIds),
    plan: fc.constantFrom(...planIds),
    jobs: fc.uniqueArray(fc.record({ id: fc.constantFrom(...jobIds), stop: fc.boolean() }), {
      minLength: 1,
      selector: ({ id }) => id,
    }),
  }),
  fc.record({
    do: fc.constant('status' as const),
    host: fc.constantFrom(...hostIds),
    job: fc.constantFrom(...jobIds),
    state: fc.constantFrom('pending' as const, 'running' as const, 'done' as const, 'lost' as const),
    isFinal: fc.boolean(),
    goesLast: fc.boolean(),
  }),
  fc.record({ do: fc.constant('delete' as const), key: fc.constantFrom(...keys) }),
  fc.record({ do: fc.constant('workload' as const), workload: fc.nat(1), count: fc.nat(3) }),
  fc.record({
    do: fc.constant('evaluate' as const),
    id: fc.constantFrom('e1', 'e2'),
    workload: fc.nat(1),
    state: fc.constantFrom('pending' as const, 'blocked' as const, 'complete' as const),
  }),
);

/** What may not depend on the way it came about. */
function everythingOf(cell: CellColumns) {
  return {
    hosts: [...cell.hosts.keys()].sort(),
    evaluations: [...cell.evaluations.keys()].sort(),
    withJobs: [...cell.hostsWithJobs()].sort(),
    workloadsWithJobs: [...cell.workloadsWithJobs()].sort(),
    workloadIds: [...cell.workloadIds()].sort(),
    omniWorkloadIds: [...cell.omniWorkloadIds()].sort(),
    count: cell.jobCount,
    byWorkload: workloads.map(({ id }) => ({
      record: cell.workload(id),
      jobs: cell.jobsOf(id),
      ended: cell
        .endedOf(id)
        .map((facts) => JSON.stringify(facts))
        .sort(),
      evaluations: cell.evaluationsOf(id),
    })),
    byHost: hostIds.map((id) => ({
      jobs: cell.jobsOn(id).toSorted((a, b) => (a.id < b.id ? -1 : 1)),
      statuses: [...cell.versions('status', id)].map(String).sort(),
      assignments: [...cell.versions('assignments', id)].map(String).sort(),
    })),
  };
}

test('folding changes one by one gives what the entries say, and nothing is left when all are gone', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
      await using store = openTestStore();
      const cell = new CellColumns({ onFault });
      const taken = new Map<string, string>();
      for (const one of steps) {
        if (one.do === 'delete') await store.transact({ then: [{ delete: one.key }] });
        if (one.do === 'workload') {
          const workload = { ...(workloads[one.workload] ?? workloadOf()), count: one.count };
          await store.transact({ then: [{ put: cellKeys.workload(workload.id), value: JSON.stringify(workload) }] });
        }
        if (one.do === 'evaluate') {
          const context = { now: 1, newId: () => one.id };
          const made = makeEvaluation(workloads[one.workload]?.id ?? '', 'workload', context);
          await store.transact({ then: [evaluationWrite({ ...made, state: one.state })] });
        }
        if (one.do === 'status') {
          const workload = workloads[workloadAt(one.job)] ?? workloadOf();
          const job = placedOf(workload, one.job, { hostId: one.host, createdAt: 7 });
          const status = statusOf(job, one.state, {
            isFinal: one.isFinal,
            startedAt: 3,
            ...(one.isFinal ? { endedAt: 9 } : {}),
            ...(one.goesLast ? { goesLast: true as const } : {}),
          });
          await store.transact({
            then: [{ put: cellKeys.jobStatus(one.host, job.id), value: JSON.stringify(status) }],
          });
        }
        if (one.do === 'assign') {
          // A job stands in one assignment.
          const jobs = one.jobs.filter(({ id }) => {
            const at = `${one.host}/${id}`;
            return (taken.get(at) ?? one.plan) === one.plan;
          });
          for (const { id } of jobs) taken.set(`${one.host}/${id}`, one.plan);
          const assignment: Assignment = {
            planId: one.plan,
            groups: workloads.flatMap(({ id, version, demand }, at) => {
              const own = jobs.filter((job) => workloadAt(job.id) === at);
              const assigned = own.map((job, index) => ({
                id: `${one.host}-${job.id}`,
                index,
                desired: job.stop ? ('stop' as const) : ('run' as const),
                createdAt: 7,
              }));
              return assigned.length === 0
                ? []
                : [{ workloadId: id, version, demand, singleton: false, jobs: assigned }];
            }),
          };
          if (jobs.length > 0) {
            const key = cellKeys.assignment(one.host, one.plan);
            await store.transact({ then: [{ put: key, value: JSON.stringify(assignment) }] });
          }
        }
      }
      const done = new AbortController();
      const { entries, revision } = await store.list(cellPrefix);
      if (revision > 1) {
        for await (const batch of store.watch('', { after: 0, signal: done.signal })) {
          for (const change of batch.changes) cell.fold(change);
          if (batch.revision >= revision) break;
        }
      }
      const fresh = cellOf(sorted(entries));
      assert.deepEqual(everythingOf(cell), everythingOf(fresh));
      for (const [hostId, planId] of hostIds.flatMap((host) => planIds.map((plan) => [host, plan] as const))) {
        const groups = cell.assignmentGroups(hostId, planId) ?? [];
        const size = { groups: groups.length, jobs: groups.flatMap(({ jobs }) => jobs).length };
        assert.deepEqual(cell.assignmentSize(hostId, planId), size);
      }
      for (const { key } of entries) cell.fold({ type: 'delete', key, modRevision: revision + 1 });
      assert.deepEqual(everythingOf(cell), everythingOf(new CellColumns({ onFault })));
    }),
    { numRuns: 300, seed: 1 },
  );
});

/** Assignments first, as a listing by kinds has them. */
function sorted(entries: readonly Entry[]): Entry[] {
  return entries.toSorted((a, b) => (a.key < b.key ? -1 : 1));
}

test('an entry that does not decode is left out and told, until it is mended', () => {
  const faults: string[] = [];
  const cell = new CellColumns({ onFault: (key) => faults.push(key) });
  const at = { createRevision: 1, modRevision: 1 };
  const put = workloadOf();
  const key = cellKeys.workload(put.id);
  cell.fold({ type: 'put', entry: { key, value: JSON.stringify(put), ...at } });
  cell.fold({ type: 'put', entry: { key, value: '{}', ...at, modRevision: 2 } });
  assert.equal(cell.workload(put.id), undefined);
  assert.deepEqual(faults, [key]);
  assert.equal(cell.unreadable(put.id), key);
  assert.deepEqual([...cell.faulty], [[key, 2]]);
  assert.deepEqual([...cell.versions('workloads')], [[key, 2]]);
  cell.fold({ type: 'put', entry: { key, value: JSON.stringify(put), ...at, modRevision: 3 } });
  assert.notEqual(cell.workload(put.id), undefined);
  assert.equal(cell.unreadable(put.id), undefined);
  assert.equal(cell.faulty.size, 0);
});

test('a host of which not all can be read is there, takes nothing, and is unsure until it can be or is gone', () => {
  const cell = new CellColumns({ onFault: () => undefined });
  const put = (key: string, value: string, modRevision: number) =>
    cell.fold({ type: 'put', entry: { key, value, modRevision, createRevision: 1 } });
  const record = JSON.stringify(hostOf('h1'));
  put(cellKeys.host('h1'), record, 1);
  for (const [key, readable] of [
    [cellKeys.host('h1'), record],
    [cellKeys.hostSettings('h1'), '{}'],
  ] as const) {
    const change = put(key, '{"capacity":[],"tags":[]}', 2);
    assert.ok(change?.kind === 'host' || change?.kind === 'settings');
    assert.equal(change.after?.cordoned, true);
    assert.equal(cell.hosts.get('h1')?.createRevision, 1);
    assert.ok(cell.isUnsure('h1'), key);
    put(key, readable, 3);
    assert.ok(!cell.isUnsure('h1'), key);
  }
  put(cellKeys.hostSettings('h1'), '[]', 4);
  cell.fold({ type: 'delete', key: cellKeys.hostSettings('h1'), modRevision: 5 });
  assert.equal(cell.settings.size, 0);
  assert.ok(!cell.isUnsure('h1'));
});

test('what cannot be read counts for the workloads that it names, but for a status', () => {
  const cell = new CellColumns({ onFault: () => undefined });
  const put = (key: string, json: unknown) =>
    cell.fold({ type: 'put', entry: { key, value: JSON.stringify(json), modRevision: 1, createRevision: 1 } });
  const workload = workloadOf();
  const job = placedOf(workload, 'a');
  const [status, assignment] = [cellKeys.jobStatus('h1', job.id), cellKeys.assignment('h1', 'p')];
  put(status, { ...statusOf(job, 'running'), state: 'hibernating' });
  assert.equal(cell.unreadable('web'), undefined);
  const { version, demand } = workload;
  const jobs = [{ id: job.id, index: 0, desired: 'run', createdAt: 0 }];
  const group = { workloadId: 'web', version, demand, singleton: false, jobs };
  put(assignment, { planId: 'p', groups: [group] });
  assert.equal(cell.unreadable('web'), undefined);
  assert.deepEqual(
    cell.jobsOf('web').map((one) => one.status),
    [undefined],
  );
  cell.fold({ type: 'delete', key: status, modRevision: 2 });
  put(cellKeys.workload('web'), workload);
  put(cellKeys.workload('db'), workloadOf({ id: 'db', template: { volumes: [{ name: 'data', path: '/data' }] } }));
  put(assignment, { planId: 'p', groups: [group, 7, { ...group, workloadId: 'db', demand: 'small' }] });
  assert.deepEqual(
    ['web', 'db', 'other'].map((id) => cell.unreadable(id)),
    [assignment, assignment, undefined],
  );
  assert.deepEqual([...cell.hostsWithJobs()], ['h1'], 'or nobody would miss it');
  assert.deepEqual(
    ['web', 'db'].map((id) => cell.unreadable(id, new Set(['h1']))),
    [undefined, assignment],
    'with its host is lost what is not bound to it',
  );
  for (const id of ['web', 'db']) cell.fold({ type: 'delete', key: cellKeys.workload(id), modRevision: 3 });
  assert.equal(cell.unreadable('web'), undefined, 'of one that was removed nothing counts');
  cell.fold({ type: 'delete', key: assignment, modRevision: 3 });
  assert.equal(cell.unreadable('web'), undefined);
  assert.deepEqual(everythingOf(cell), everythingOf(new CellColumns({ onFault })));
});

test('what a host says of a job is read as it was said', () => {
  const workload = workloadOf();
  for (const state of jobStates) {
    for (const more of [{}, { goesLast: true as const }, { startedAt: 3, endedAt: 9, isFinal: true }]) {
      const said = statusOf(placedOf(workload, 'a', { createdAt: 7 }), state, more);
      const { isFinal, createdAt, version } = said;
      const key = cellKeys.jobStatus(said.hostId, said.id);
      const columns = cellOf([{ key, value: JSON.stringify(said), createRevision: 1, modRevision: 1 }]);
      const change = columns.fold({ type: 'delete', key, modRevision: 2 });
      assert.ok(change?.kind === 'status');
      assert.deepEqual(change.before, { state, createdAt, version, isFinal, ...more });
    }
  }
});
