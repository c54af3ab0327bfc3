import { newId } from '@flynn/kit/ids';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { TaskGroup } from '@flynn/kit/tasks';
import { openMirror } from '@flynn/store/mirror';
import type { Store } from '@flynn/store/store';
import { openTestStore } from '@flynn/store/testing';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cellKeys, cellPrefix } from './cell.ts';
import type { Workload } from './cell.ts';
import { workloadChange, workloadRemoval } from './evaluations.ts';
import { findViolations } from './invariants.ts';
import { startScheduler } from './scheduler.ts';
import type { SchedulerOptions } from './scheduler.ts';
import { CellState, decodeCellEntry } from './snapshot.ts';
import type { Cell, CellEntry } from './snapshot.ts';
import { hostOf, hostPut, mebibyte, readCell, stepHost, wellBehaved, workloadOf } from './testing.ts';
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
  const cell = new CellState();
  const violations: string[] = [];
  const watchers = new Set<(cell: Cell) => void>();
  tasks.run('check', async (signal) => {
    for await (const batch of store.watch(cellPrefix, { after: 0, signal })) {
      for (const change of batch.changes) {
        const key = (change.type === 'put' ? change.entry.key : change.key).slice(cellPrefix.length);
        const before = known.get(key);
        const after =
          change.type === 'put' ? decodeCellEntry(JSON.parse(change.entry.value), key, change.entry) : undefined;
        if (after === undefined) known.delete(key);
        else known.set(key, after);
        cell.fold({ key, ...(before === undefined ? {} : { before }), ...(after === undefined ? {} : { after }) });
      }
      violations.push(...findViolations(cell));
      for (const watcher of watchers) watcher(cell);
    }
  });
  const known = new Map<string, CellEntry>();
  const alive = new Set(options.hosts);
  const mirror = await openMirror<CellEntry>({ store, prefix: cellPrefix, decode: decodeCellEntry, log, signal });
  tasks.run('hosts', async (signal) => {
    for await (const _ of mirror.changes({ signal })) {
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
      await mirror[Symbol.asyncDispose]();
      for (const scheduler of schedulers) await scheduler[Symbol.asyncDispose]();
      await store.close();
      assert.deepEqual([...new Set(violations)], []);
    },
  };
}

const change = (store: Store, workload: Workload) => store.transact({ then: workloadChange(workload, context()) });
const running = (cell: Cell, id: string, version?: string) =>
  cell
    .jobsOf(id)
    .filter(
      ({ job, status }) =>
        status?.state === 'running' && job.desired === 'run' && (version ?? job.version) === job.version,
    );
const until = (what: string, probe: () => boolean) => waitFor(probe, { what, deadlineMs: 8_000, intervalMs: 2 });

test('a workload is placed by one transaction after its evaluation, and scaled by another', async () => {
  await using cluster = await openCluster({ hosts: ['h1', 'h2', 'h3'] });
  const { store, cell } = cluster;
  await change(store, workloadOf());
  await until('the first job', () => running(cell, 'web').length === 1);
  const before = cluster.schedulers[0]?.counts.committed ?? 0;
  await change(store, workloadOf({ count: 20 }));
  await until('twenty jobs', () => running(cell, 'web').length === 20 && cell.evaluations.size === 0);
  assert.equal((cluster.schedulers[0]?.counts.committed ?? 0) - before, 1);
  await store.transact({ then: workloadRemoval('web', context()) });
  await until('nothing left', () => cell.jobsOf('web').length === 0 && cell.evaluations.size === 0);
});

test('workloads that are asked for together are committed together', async () => {
  const store = openTestStore();
  const stop = new AbortController();
  const all = Array.from({ length: 12 }, (_, n) =>
    workloadOf({ id: `app${n}`, template: { resources: { memoryBytes: 1_000, cpuMillis: 1 } } }),
  );
  await store.transact({ then: [hostPut(hostOf('h1')), ...all.flatMap((one) => workloadChange(one, context()))] });
  const scheduler = await startScheduler({ store, log, signal: stop.signal, id: 'h1' });
  await waitFor(async () => (await store.list(cellKeys.evaluations)).entries.length === 0, {
    what: 'all placed',
    deadlineMs: 5_000,
    intervalMs: 5,
  });
  assert.equal((await readCell(store)).assignments.size, 1);
  assert.equal(scheduler.counts.committed, 1);
  await scheduler[Symbol.asyncDispose]();
  await store.close();
});

test('a rolling update replaces every job and never has fewer running than asked for', async () => {
  await using cluster = await openCluster({ hosts: ['h1', 'h2', 'h3'] });
  const { store, cell } = cluster;
  await change(store, workloadOf({ count: 8 }));
  await until('the old version', () => running(cell, 'web', 'v1').length === 8);
  let fewest = Infinity;
  cluster.watchers.add((cell) => {
    fewest = Math.min(fewest, running(cell, 'web').length);
  });
  await change(store, workloadOf({ count: 8, version: 'v2' }));
  await until('the new version', () => running(cell, 'web', 'v2').length === 8 && cell.jobsOf('web').length === 8);
  assert.equal(fewest, 8);
});

test('a service with volumes is updated one slot after the other, each on its host', async () => {
  await using cluster = await openCluster({ hosts: ['h1', 'h2', 'h3'] });
  const { store, cell } = cluster;
  const db = (version: string) =>
    workloadOf({ count: 3, version, template: { volumes: [{ name: 'data', path: '/data' }] } });
  await change(store, db('v1'));
  await until('the old version', () => running(cell, 'web', 'v1').length === 3);
  const places = () => cell.jobsOf('web').map(({ job, hostId }) => `${job.index} ${hostId}`);
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
  await change(store, workloadOf({ count: 6 }));
  await change(store, workloadOf({ id: 'run', kind: 'ephemeral', constraints: there }));
  await until('all jobs', () => running(cell, 'web').length === 6 && running(cell, 'run').length === 1);
  assert.ok(running(cell, 'web').some(({ hostId }) => hostId === 'h3'));
  alive.delete('h3');
  await store.transact({ then: [{ delete: cellKeys.host('h3') }] });
  await until('the replacements', () => running(cell, 'web').length === 6 && !cell.claims.has('h3'));
  assert.ok(cell.jobsOf('web').every(({ hostId }) => hostId !== 'h3'));
  assert.deepEqual(cell.jobsOf('run'), []);
  assert.equal(cell.workloads.get('run')?.value.count, 0);
});

test('when most hosts are away at once nothing is given up before the hold is over', async () => {
  await using cluster = await openCluster({ hosts: ['h1', 'h2', 'h3'], lossHoldMs: 400 });
  const { store, cell, alive } = cluster;
  await change(store, workloadOf({ count: 3 }));
  await until('all jobs', () => running(cell, 'web').length === 3);
  alive.delete('h2');
  alive.delete('h3');
  const goneAt = Date.now();
  await store.transact({ then: ['h2', 'h3'].map((id) => ({ delete: cellKeys.host(id) })) });
  await until('the replacements', () => running(cell, 'web').every(({ hostId }) => hostId === 'h1'));
  assert.ok(Date.now() - goneAt >= 400, 'it gave the hosts up too early');
});

test('what waits for room is placed when a host joins and when others leave room', async () => {
  await using cluster = await openCluster({ hosts: ['h1'] });
  const { store, cell } = cluster;
  await change(store, workloadOf({ count: 25 }));
  await until(
    'a full host',
    () => running(cell, 'web').length === 10 && cell.evaluations.get('web')?.value.state === 'blocked',
  );
  cluster.alive.add('h2');
  await store.transact({ then: [hostPut(hostOf('h2'))] });
  await until('a second full host', () => running(cell, 'web').length === 20);
  await change(store, workloadOf({ id: 'api', count: 2 }));
  await until('the other one to wait', () => cell.evaluations.get('api')?.value.state === 'blocked');
  await change(store, workloadOf({ count: 5 }));
  await until('room for it', () => running(cell, 'api').length === 2 && running(cell, 'web').length === 5);
  await until('no evaluation', () => cell.evaluations.size === 0);
});

test('several schedulers on one cell get everything done, each its share', async () => {
  const hosts = ['h1', 'h2', 'h3', 'h4'];
  await using cluster = await openCluster({ hosts, schedulers: hosts, takeoverMs: 200 });
  const { store, cell } = cluster;
  const all = Array.from({ length: 30 }, (_, n) =>
    workloadOf({ id: `app${n}`, template: { resources: { memoryBytes: 20_000_000, cpuMillis: 10 } }, count: 2 }),
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
  const all = Array.from({ length: 8 }, (_, n) => workloadOf({ id: `app${n}` }));
  await Promise.all(all.map((one) => change(store, one)));
  await until('all of them', () => all.every(({ id }) => running(cell, id).length === 1));
});

test('a job that fails for good is replaced again and again, with pauses', async () => {
  let failures = 0;
  const behave: Behaviour = (job, status) => {
    if (job.desired === 'stop' || failures >= 3) return wellBehaved(job, status);
    failures += 1;
    return 'failed';
  };
  await using cluster = await openCluster({ hosts: ['h1'], behave });
  const { store, cell } = cluster;
  const startedAt = Date.now();
  await change(store, workloadOf());
  await until('the one that works', () => running(cell, 'web').length === 1 && cell.jobsOf('web').length === 1);
  assert.ok(Date.now() - startedAt >= 3_000, 'it did not pause');
  await until('no evaluation', () => cell.evaluations.size === 0);
});

test('a workload written without an evaluation is found by the repair', async () => {
  await using cluster = await openCluster({ hosts: ['h1'], repairMs: 50 });
  const [put] = workloadChange(workloadOf({ count: 2 }), context());
  assert.ok(put !== undefined);
  await cluster.store.transact({ then: [put] });
  await until('its jobs', () => running(cluster.cell, 'web').length === 2);
});

test('a scheduler that lost its store goes on when it is back', async () => {
  const store = openTestStore();
  const connection = store.connect();
  const stop = new AbortController();
  await store.transact({ then: [hostPut(hostOf('h1'))] });
  const scheduler = await startScheduler({ store: connection, log, signal: stop.signal, id: 'h1' });
  connection.disconnect();
  await change(store, workloadOf({ count: 2 }));
  connection.reconnect();
  await waitFor(async () => (await readCell(store)).jobsOf('web').length === 2, {
    what: 'the jobs',
    deadlineMs: 8_000,
  });
  await scheduler[Symbol.asyncDispose]();
  await connection.close();
  await store.close();
});

test('a workload that can never be written keeps no other one from being placed', async () => {
  await using cluster = await openCluster({ hosts: ['h1'] });
  const sized = (bytes: number) => workloadOf({ id: 'big', template: { env: { BIG: 'x'.repeat(bytes) } } });
  // It fits into the store by itself, and not with what an assignment says besides.
  const big = sized(mebibyte - JSON.stringify(sized(0)).length);
  const web = workloadOf({ id: 'web' });
  await cluster.store.transact({ then: [...workloadChange(big, context()), ...workloadChange(web, context())] });
  await until('web to run', () => running(cluster.cell, 'web').length === 1);
});

test('jobs with large templates are written in several parts', async () => {
  await using cluster = await openCluster({ hosts: ['h1', 'h2', 'h3', 'h4'] });
  const resources = { memoryBytes: mebibyte, cpuMillis: 1 };
  const big = workloadOf({ id: 'big', count: 80, template: { resources, env: { BIG: 'x'.repeat(60_000) } } });
  const sizes: number[] = [];
  cluster.watchers.add((cell) => {
    for (const { value } of cell.assignments.values()) sizes.push(JSON.stringify(value).length);
  });
  await cluster.store.transact({ then: workloadChange(big, context()) });
  await until('all to run', () => running(cluster.cell, 'big').length === 80);
  assert.ok(Math.max(...sizes) < 600_000, `${Math.max(...sizes)} bytes in one key`);
});

test('setting the clock back does not put off what is due', async (t) => {
  await using cluster = await openCluster({ hosts: ['h1'], repairMs: 50 });
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() - 3_600_000 });
  const web = workloadOf({ id: 'web' });
  // Without an evaluation: only the repair finds it.
  await cluster.store.transact({ then: workloadChange(web, context()).slice(0, 1) });
  await until('it to run', () => running(cluster.cell, 'web').length === 1);
});
