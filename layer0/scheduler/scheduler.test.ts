import { newId } from '@flynn/kit/ids';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { TaskGroup } from '@flynn/kit/tasks';
import type { Store } from '@flynn/store/store';
import { openTestStore } from '@flynn/store/testing';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cellKeys, cellPrefix, hostSettingsSchema } from './cell.ts';
import { evaluationSchema } from './evaluation.ts';
import type { WorkloadInput } from './cell.ts';
import { workloadChange, workloadRemoval } from './evaluations.ts';
import { findViolations } from './invariants.ts';
import { drained } from './operator-settings.ts';
import { startScheduler } from './scheduler.ts';
import type { SchedulerOptions } from './scheduler.ts';
import { CellColumns } from './columns/cell-columns.ts';
import { hostOf, hostPut, mebibyte, readCell, stepHost, wellBehaved, workloadInputOf } from './testing.ts';
import type { Behaviour } from './testing.ts';

const log = silentLogger();
const context = () => ({ now: Date.now(), newId });

/** A cell with schedulers and hosts that do as they are told, checked at every revision. */
async function openCluster(
  options: { hosts: string[]; schedulers?: string[]; behave?: Behaviour } & Partial<SchedulerOptions>,
) {
  const store = openTestStore();
  await store.transact({ then: options.hosts.map((id) => hostPut(hostOf(id))) });
  const tasks = new TaskGroup();
  const { signal } = tasks;
  const cell = new CellColumns({ onFault: (key, error) => assert.fail(`${key}: ${String(error)}`) });
  const violations: string[] = [];
  const watchers = new Set<(cell: CellColumns) => void>();
  tasks.run('check', async (signal) => {
    for await (const batch of store.watch(cellPrefix, { after: 0, signal })) {
      for (const change of batch.changes) cell.fold(change);
      cell.advance(batch.revision);
      violations.push(...findViolations(cell));
      for (const watcher of watchers) watcher(cell);
    }
  });
  const alive = new Set(options.hosts);
  tasks.run('hosts', async (signal) => {
    for await (const _ of store.watch(cellPrefix, { after: 0, signal })) {
      for (const id of alive) await stepHost(store, id, options.behave ?? wellBehaved, context());
    }
  });
  const schedulers = await Promise.all(
    (options.schedulers ?? ['h1']).map((id) =>
      startScheduler({ lossGraceMs: 20, lossHoldMs: 100, takeoverMs: 200, ...options, store, log, signal, id, tasks }),
    ),
  );
  return {
    store,
    cell,
    alive,
    violations,
    watchers,
    schedulers,
    async [Symbol.asyncDispose]() {
      await tasks.stop();
      await tasks.done();
      for (const scheduler of schedulers) await scheduler[Symbol.asyncDispose]();
      await store.close();
      assert.deepEqual([...new Set(violations)], []);
    },
  };
}

const change = (store: Store, workload: WorkloadInput) => store.transact({ then: workloadChange(workload, context()) });
const running = (cell: CellColumns, id: string, version?: string) =>
  cell
    .jobsOf(id)
    .filter(
      (job) => job.status?.state === 'running' && job.desired === 'run' && (version ?? job.version) === job.version,
    );
const isWaiting = (cell: CellColumns, id: string) =>
  cell.evaluationsOf(id).some(({ value }) => value.state === 'blocked');
const until = (what: string, probe: () => boolean) => waitFor(probe, { what, deadlineMs: 30_000, intervalMs: 2 });

test('a workload is placed by one transaction after its evaluation, and scaled by another', async () => {
  await using cluster = await openCluster({ hosts: ['h1', 'h2', 'h3'] });
  const { store, cell } = cluster;
  await change(store, workloadInputOf());
  await until('the first job', () => running(cell, 'web').length === 1 && cell.evaluations.size === 0);
  const before = cluster.schedulers[0]?.counts.committed ?? 0;
  await change(store, workloadInputOf({ count: 20 }));
  await until('twenty jobs', () => running(cell, 'web').length === 20 && cell.evaluations.size === 0);
  assert.equal((cluster.schedulers[0]?.counts.committed ?? 0) - before, 1);
  await store.transact({ then: workloadRemoval('web', context()) });
  await until('nothing left', () => cell.jobsOf('web').length === 0 && cell.evaluations.size === 0);
});

test('workloads that are asked for together are committed together', async () => {
  const store = openTestStore();
  const stop = new AbortController();
  const all = Array.from({ length: 12 }, (_, n) =>
    workloadInputOf({ id: `app${n}`, template: { resources: { memoryBytes: 1_000, cpuMillis: 1 } } }),
  );
  await store.transact({ then: [hostPut(hostOf('h1')), ...all.flatMap((one) => workloadChange(one, context()))] });
  const scheduler = await startScheduler({ store, log, signal: stop.signal, id: 'h1' });
  const states = async () => {
    const { entries } = await store.list(cellKeys.evaluations);
    return entries.map(({ value }) => evaluationSchema.parse(JSON.parse(value)).state);
  };
  await waitFor(async () => (await states()).every((state) => state === 'complete'), {
    what: 'all placed',
    deadlineMs: 30_000,
    intervalMs: 5,
  });
  assert.equal((await states()).length, 12);
  assert.equal((await readCell(store)).assignmentIds('h1').length, 1);
  assert.equal(scheduler.counts.committed, 1);
  await scheduler[Symbol.asyncDispose]();
  await store.close();
});

test('a rolling update replaces every job and never has fewer running than asked for', async () => {
  await using cluster = await openCluster({ hosts: ['h1', 'h2', 'h3'] });
  const { store, cell } = cluster;
  await change(store, workloadInputOf({ count: 8 }));
  await until('the old version', () => running(cell, 'web', 'v1').length === 8);
  let fewest = Infinity;
  cluster.watchers.add((cell) => {
    fewest = Math.min(fewest, running(cell, 'web').length);
  });
  await change(store, workloadInputOf({ count: 8, version: 'v2' }));
  await until('the new version', () => running(cell, 'web', 'v2').length === 8 && cell.jobsOf('web').length === 8);
  assert.equal(fewest, 8);
});

test('a service with volumes is updated one slot after the other, each on its host', async () => {
  await using cluster = await openCluster({ hosts: ['h1', 'h2', 'h3'] });
  const { store, cell } = cluster;
  const db = (version: string) =>
    workloadInputOf({ count: 3, version, template: { volumes: [{ name: 'data', path: '/data' }] } });
  await change(store, db('v1'));
  await until('the old version', () => running(cell, 'web', 'v1').length === 3);
  const places = () => cell.jobsOf('web').map(({ index, hostId }) => `${index} ${hostId}`);
  const before = places();
  let fewest = Infinity;
  cluster.watchers.add((cell) => {
    fewest = Math.min(fewest, running(cell, 'web').length);
  });
  await change(store, db('v2'));
  await until('the new version', () => running(cell, 'web', 'v2').length === 3);
  assert.deepEqual(places(), before);
  assert.equal(fewest, 2);
});

test('the jobs of a lost host come back elsewhere; its ephemeral one does not', async () => {
  await using cluster = await openCluster({ hosts: ['h1', 'h2', 'h3'], schedulers: ['h1', 'h2'] });
  const { store, cell, alive } = cluster;
  const there = [{ attribute: 'id', values: ['h3'] }];
  await store.transact({ then: [hostPut(hostOf('h3', { attributes: { id: 'h3' } }))] });
  await change(store, workloadInputOf({ count: 6 }));
  await change(store, workloadInputOf({ id: 'run', kind: 'ephemeral', constraints: there }));
  await until('all jobs', () => running(cell, 'web').length === 6 && running(cell, 'run').length === 1);
  assert.ok(running(cell, 'web').some(({ hostId }) => hostId === 'h3'));
  alive.delete('h3');
  await store.transact({ then: [{ delete: cellKeys.host('h3') }] });
  await until('the replacements', () => running(cell, 'web').length === 6 && !cell.claims.has('h3'));
  assert.ok(cell.jobsOf('web').every(({ hostId }) => hostId !== 'h3'));
  assert.deepEqual(cell.jobsOf('run'), []);
  assert.equal(cell.workload('run')?.value.count, 0);
});

test('when most hosts are away at once nothing is given up before the hold is over', async () => {
  await using cluster = await openCluster({ hosts: ['h1', 'h2', 'h3'], lossHoldMs: 400 });
  const { store, cell, alive } = cluster;
  await change(store, workloadInputOf({ count: 3 }));
  await until('all jobs', () => running(cell, 'web').length === 3);
  alive.delete('h2');
  alive.delete('h3');
  const goneMs = performance.now();
  await store.transact({ then: ['h2', 'h3'].map((id) => ({ delete: cellKeys.host(id) })) });
  await until('the replacements', () => running(cell, 'web').every(({ hostId }) => hostId === 'h1'));
  assert.ok(performance.now() - goneMs >= 400, 'it gave the hosts up too early');
});

test('what waits for room is placed when a host joins and when others leave room', async () => {
  await using cluster = await openCluster({ hosts: ['h1'] });
  const { store, cell } = cluster;
  await change(store, workloadInputOf({ count: 25 }));
  await until('a full host', () => running(cell, 'web').length === 10 && isWaiting(cell, 'web'));
  cluster.alive.add('h2');
  await store.transact({ then: [hostPut(hostOf('h2'))] });
  await until('a second full host', () => running(cell, 'web').length === 20);
  await change(store, workloadInputOf({ id: 'api', count: 2 }));
  await until('the other one to wait', () => isWaiting(cell, 'api'));
  await change(store, workloadInputOf({ count: 5 }));
  await until('room for it', () => running(cell, 'api').length === 2 && running(cell, 'web').length === 5);
  await until('no evaluation', () => cell.evaluations.size === 0);
});

test('several schedulers on one cell get everything done, each its share', async () => {
  const hosts = ['h1', 'h2', 'h3', 'h4'];
  // Nobody takes over what another is slow to do.
  await using cluster = await openCluster({ hosts, schedulers: hosts, takeoverMs: 20_000 });
  const { store, cell } = cluster;
  const all = Array.from({ length: 30 }, (_, n) =>
    workloadInputOf({ id: `app${n}`, template: { resources: { memoryBytes: 20_000_000, cpuMillis: 10 } }, count: 2 }),
  );
  await Promise.all(all.map((one) => change(store, one)));
  await until(
    'all of them',
    () => all.every(({ id }) => running(cell, id).length === 2) && cell.evaluations.size === 0,
  );
  assert.ok(cluster.schedulers.filter(({ counts }) => counts.committed > 0).length > 1);
});

test('another scheduler takes over what its owner leaves undone', async () => {
  await using cluster = await openCluster({ hosts: ['h1', 'h2', 'h3', 'h4'], schedulers: ['h1'], takeoverMs: 100 });
  const { store, cell } = cluster;
  const all = Array.from({ length: 8 }, (_, n) => workloadInputOf({ id: `app${n}` }));
  await Promise.all(all.map((one) => change(store, one)));
  await until('all of them', () => all.every(({ id }) => running(cell, id).length === 1));
});

test('a job that fails for good is replaced again and again, with pauses', async () => {
  let failures = 0;
  const behave: Behaviour = (job) => {
    if (job.desired === 'stop' || failures >= 3) return wellBehaved(job);
    failures += 1;
    return 'failed';
  };
  await using cluster = await openCluster({ hosts: ['h1'], behave });
  const { store, cell } = cluster;
  const startedMs = performance.now();
  await change(store, workloadInputOf({ reschedule: { delayMs: 100 } }));
  await until('the one that works', () => running(cell, 'web').length === 1 && cell.jobsOf('web').length === 1);
  assert.ok(performance.now() - startedMs >= 300, 'it did not pause');
  await until('no evaluation', () => cell.evaluations.size === 0);
});

test('a workload written without an evaluation is found by the repair', async () => {
  await using cluster = await openCluster({ hosts: ['h1'], repairMs: 50 });
  const [put] = workloadChange(workloadInputOf({ count: 2 }), context());
  assert.ok(put !== undefined);
  await cluster.store.transact({ then: [put] });
  await until('its jobs', () => running(cluster.cell, 'web').length === 2);
});

test('a job on a host that was tagged while no scheduler was there leaves it', async () => {
  await using cluster = await openCluster({ hosts: ['h1', 'h2'], schedulers: [] });
  const { store, cell } = cluster;
  const onSsd = workloadInputOf({ constraints: [{ attribute: 'disk', values: ['ssd'] }] });
  const tag = (host: string, disk: string) =>
    store.transact({ then: [{ put: cellKeys.hostSettings(host), value: JSON.stringify({ tags: { disk } }) }] });
  const schedulerWhile = async (what: string, isDone: () => boolean) => {
    const tasks = new TaskGroup();
    const { signal } = tasks;
    const options = { store, log, signal, id: 'h1', tasks, lossGraceMs: 20, repairMs: 50 };
    await using _scheduler = await startScheduler(options);
    await until(what, isDone);
    await tasks.stop();
    await tasks.done();
  };
  const isOnlyOn = (host: string) => {
    const jobs = cell.jobsOf('web');
    return jobs.length === 1 && jobs[0]?.hostId === host && running(cell, 'web').length === 1;
  };
  await tag('h1', 'ssd');
  await change(store, onSsd);
  await schedulerWhile('it to run', () => isOnlyOn('h1') && cell.evaluations.size === 0);
  await tag('h1', 'hdd');
  await tag('h2', 'ssd');
  await schedulerWhile('it to have moved', () => isOnlyOn('h2'));
});

test('a workload that can never be written keeps no other one from being placed', async () => {
  await using cluster = await openCluster({ hosts: ['h1'] });
  const resources = { memoryBytes: 1_000, cpuMillis: 1 };
  const sized = (bytes: number) =>
    workloadInputOf({
      id: 'big',
      count: 30,
      template: { resources, volumes: [{ name: 'x'.repeat(bytes), path: '/data' }] },
    });
  const [put] = workloadChange(sized(0), context());
  assert.ok(put !== undefined && 'put' in put);
  // It fits into the store by itself, and not with what an assignment says besides.
  const big = sized(mebibyte - put.value.length - 100);
  const web = workloadInputOf({ id: 'web' });
  await cluster.store.transact({ then: [...workloadChange(big, context()), ...workloadChange(web, context())] });
  await until('web to run', () => running(cluster.cell, 'web').length === 1);
  const failed = async () => {
    const { entries } = await cluster.store.list(cellKeys.evaluations);
    const all = entries.map(({ value }) => evaluationSchema.parse(JSON.parse(value)));
    return all.find(({ workloadId, state }) => workloadId === 'big' && state === 'failed');
  };
  const { reason, nextId } = await waitFor(failed, { what: 'the end of the other', deadlineMs: 30_000 });
  assert.match(reason ?? '', /1 MiB/);
  assert.ok(nextId !== undefined, 'it is not tried again later');
});

test('a scheduler that began while its clock was wrong goes by the right time once that is set', async (t) => {
  for (const offMs of [2 * 3_600_000, -2 * 3_600_000]) {
    t.mock.timers.enable({ apis: ['Date'], now: Date.now() + offMs });
    await using cluster = await openCluster({ hosts: ['h1'], reopenMs: 10 });
    const { store, cell } = cluster;
    await change(store, workloadInputOf());
    await until('it to run', () => running(cell, 'web').length === 1 && cell.evaluations.size === 0);
    t.mock.timers.reset();
    const drain = async (deadlineMs: number) => {
      const settings = drained(hostSettingsSchema.parse({}), { deadlineMs }, Date.now());
      await store.transact({ then: [{ put: cellKeys.hostSettings('h1'), value: JSON.stringify(settings) }] });
    };
    await drain(600_000);
    await until('the drain to be seen', () => isWaiting(cell, 'web'));
    assert.equal(running(cell, 'web').length, 1, 'a deadline that is to come is over');
    await drain(50);
    await until('the end of the deadline', () => running(cell, 'web').length === 0);
  }
});

test('setting the clock back does not put off what is due', async (t) => {
  await using cluster = await openCluster({ hosts: ['h1'], repairMs: 50, reopenMs: 10 });
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() - 3_600_000 });
  const web = workloadInputOf({ id: 'web' });
  // Without an evaluation: only the repair finds it.
  await cluster.store.transact({ then: workloadChange(web, context()).slice(0, 1) });
  await until('it to run', () => running(cluster.cell, 'web').length === 1);
});
