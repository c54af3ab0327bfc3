import { silentLogger } from '@flynn/kit/log';
import { openMirror } from '@flynn/store/mirror';
import { openTestStore } from '@flynn/store/testing';
import type { Operation, Store } from '@flynn/store/store';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cellKeys, cellPrefix } from './cell.ts';
import type { HostRecord, Workload } from './cell.ts';
import { commitPlan, transactionsOf } from './commit.ts';
import { makeEvaluation, workloadChange, workloadRemoval } from './evaluations.ts';
import { Rooms, findObstacle } from './feasible.ts';
import { findViolations } from './invariants.ts';
import type { Plan } from './plan.ts';
import { rankEphemeral } from './rank.ts';
import { schedule } from './schedulers/scheduler.ts';
import { CellState, decodeCellEntry } from './snapshot.ts';
import type { Cell, CellEntry } from './snapshot.ts';
import { hostOf, hostPut, mebibyte, readCell, stepHost, wellBehaved, workloadOf } from './testing.ts';

let ids = 0;
const newId = () => `i${(ids += 1)}`;
const signal = new AbortController().signal;
const now = 1_000;

function planFor(workloadId: string, cell: Cell, lostHosts: readonly string[] = []): Plan {
  const evaluation = cell.evaluations.get(workloadId)?.value ?? makeEvaluation(workloadId, 'workload', { now, newId });
  return schedule(evaluation, cell, {
    now,
    newId,
    random: () => 0.5,
    lostHosts: new Set(lostHosts),
    rooms: new Rooms(cell),
  });
}

async function storeWith(hosts: readonly HostRecord[], workloads: readonly Workload[]) {
  const store = openTestStore();
  const operations: Operation[] = [
    ...hosts.map(hostPut),
    ...workloads.flatMap((one) => workloadChange(one, { now, newId })),
  ];
  await store.transact({ then: operations });
  return store;
}

async function commitAll(store: Store, ...workloadIds: string[]): Promise<Cell> {
  for (const workloadId of workloadIds) {
    const cell = await readCell(store);
    const result = await commitPlan(store, planFor(workloadId, cell), cell, { signal });
    assert.notEqual(result.state, 'refused');
  }
  const cell = await readCell(store);
  assert.deepEqual(findViolations(cell), []);
  return cell;
}

const hostsOf = (cell: Cell, workloadId: string) =>
  cell
    .jobsOf(workloadId)
    .map(({ hostId }) => hostId)
    .sort();

test('a service is spread over zones, then hosts, in one transaction that also ends its evaluation', async () => {
  const zones = { h1: 'a', h2: 'a', h3: 'b' };
  const hosts = Object.entries(zones).map(([id, zone]) => hostOf(id, { attributes: { zone } }));
  await using store = await storeWith(hosts, [workloadOf({ count: 4 })]);
  const before = await readCell(store);
  const plan = planFor('web', before);
  assert.equal(transactionsOf(plan, before).length, 1);
  const cell = await commitAll(store, 'web');
  assert.deepEqual(hostsOf(cell, 'web'), ['h1', 'h2', 'h3', 'h3']);
  assert.equal(cell.evaluations.size, 0);
  assert.deepEqual(
    cell.jobsOf('web').map(({ job }) => job.index),
    [0, 1, 2, 3],
  );
});

test('among equals a service goes where it is fullest', async () => {
  const big = workloadOf({
    id: 'big',
    constraints: [{ attribute: 'disk', values: ['ssd'] }],
    template: { resources: { memoryBytes: 500 * mebibyte, cpuMillis: 0 } },
  });
  await using store = await storeWith(
    [hostOf('h1'), hostOf('h2', { attributes: { disk: 'ssd' } })],
    [big, workloadOf()],
  );
  assert.deepEqual(hostsOf(await commitAll(store, 'big', 'web'), 'web'), ['h2']);
});

test('what fits nowhere waits with the reasons, and is placed when there is room', async () => {
  const hosts = [hostOf('h1'), hostOf('h2', { cordoned: true }), hostOf('h3', { attributes: { zone: 'b' } })];
  const web = workloadOf({ count: 12, constraints: [{ attribute: 'zone', values: ['b'] }] });
  await using store = await storeWith(hosts, [web]);
  let cell = await commitAll(store, 'web');
  assert.equal(cell.jobsOf('web').length, 10);
  const blocked = cell.evaluations.get('web')?.value;
  assert.equal(blocked?.state, 'blocked');
  assert.equal(blocked.reason, '10 placed, 2 waiting: memory (1 host), zone is not b (2 hosts)');
  const before = await readCell(store);
  const again = await commitPlan(store, planFor('web', before), before, { signal });
  assert.deepEqual(again, { state: 'nothing' }, 'waiting on changes nothing');
  await store.transact({ then: [hostPut(hostOf('h4', { attributes: { zone: 'b' } }))] });
  cell = await commitAll(store, 'web');
  assert.equal(cell.jobsOf('web').length, 12);
  assert.equal(cell.evaluations.size, 0);
});

test('jobs in the host network hold its ports, shared only within their family', async () => {
  const template = (app: string) => ({
    hostNetwork: true,
    ports: [{ port: 80 }],
    meta: { 'flynn.app': app, 'flynn.type': 'web' },
  });
  const router = workloadOf({ id: 'router', kind: 'omni', template: template('router') });
  const other = workloadOf({ id: 'other', template: template('other') });
  await using store = await storeWith([hostOf('h1')], [router, other]);
  let cell = await commitAll(store, 'router', 'other');
  assert.equal(cell.evaluations.get('other')?.value.reason, '0 placed, 1 waiting: port 80 is taken (1 host)');
  await stepHost(store, 'h1', wellBehaved, { now, newId });
  await store.transact({ then: workloadChange({ ...router, version: 'v2' }, { now, newId }) });
  cell = await commitAll(store, 'router');
  assert.deepEqual(hostsOf(cell, 'router'), ['h1', 'h1']);
});

test('a plan made on an old state of a host is refused, also when the host went and came back', async () => {
  await using store = await storeWith([hostOf('h1')], [workloadOf(), workloadOf({ id: 'api' })]);
  const stale = await readCell(store);
  await commitAll(store, 'api');
  assert.equal((await commitPlan(store, planFor('web', stale), stale, { signal })).state, 'refused');

  const current = await readCell(store);
  await store.transact({ then: [{ delete: cellKeys.host('h1') }] });
  await store.transact({ then: [hostPut(hostOf('h1'))] });
  assert.equal((await commitPlan(store, planFor('web', current), current, { signal })).state, 'refused');
  assert.deepEqual(hostsOf(await commitAll(store, 'web'), 'web'), ['h1']);
});

test('a plan is refused when its evaluation has changed meanwhile, and a second commit of the same plan too', async () => {
  await using store = await storeWith([hostOf('h1')], [workloadOf()]);
  const cell = await readCell(store);
  const plan = planFor('web', cell);
  await store.transact({ then: workloadChange(workloadOf({ count: 2 }), { now, newId }) });
  assert.equal((await commitPlan(store, plan, cell, { signal })).state, 'refused');
  const fresh = await readCell(store);
  const good = planFor('web', fresh);
  assert.equal((await commitPlan(store, good, fresh, { signal })).state, 'committed');
  assert.equal((await commitPlan(store, good, fresh, { signal })).state, 'refused');
  assert.equal((await readCell(store)).jobsOf('web').length, 2);
});

test('a removed workload stops its jobs and leaves no key once they ended', async () => {
  await using store = await storeWith([hostOf('h1')], [workloadOf({ count: 3 })]);
  await commitAll(store, 'web');
  await stepHost(store, 'h1', wellBehaved, { now, newId });
  await store.transact({ then: workloadRemoval('web', { now, newId }) });
  let cell = await commitAll(store, 'web');
  assert.ok(cell.jobsOf('web').every(({ job }) => job.desired === 'stop'));
  await stepHost(store, 'h1', wellBehaved, { now, newId });
  cell = await commitAll(store, 'web');
  assert.deepEqual([cell.jobsOf('web').length, cell.assignments.size, cell.evaluations.size], [0, 0, 0]);
  assert.deepEqual(cell.claims.get('h1')?.value.jobs, {});
});

test('an ephemeral job that ended is released, and its workload asks for nothing any more', async () => {
  await using store = await storeWith([hostOf('h1')], [workloadOf({ kind: 'ephemeral' })]);
  await commitAll(store, 'web');
  await stepHost(store, 'h1', () => 'failed', { now, newId });
  let cell = await commitAll(store, 'web');
  assert.equal(cell.workloads.get('web')?.value.count, 0);
  assert.equal(cell.jobsOf('web').length, 0);
  cell = await commitAll(store, 'web');
  assert.equal(cell.jobsOf('web').length, 0);
});

test('a lost host is emptied while its jobs are placed elsewhere, in the same transaction', async () => {
  await using store = await storeWith([hostOf('h1')], [workloadOf({ count: 2 })]);
  await commitAll(store, 'web');
  await store.transact({ then: [{ delete: cellKeys.host('h1') }, hostPut(hostOf('h2'))] });
  const cell = await readCell(store);
  const plan = planFor('web', cell, ['h1']);
  assert.equal((await commitPlan(store, plan, cell, { signal })).state, 'committed');
  const after = await readCell(store);
  assert.deepEqual(hostsOf(after, 'web'), ['h2', 'h2']);
  assert.equal(after.claims.has('h1'), false);
  assert.deepEqual(findViolations(after), []);
});

test('a plan over more hosts than a transaction holds is split, and only its end ends the evaluation', async () => {
  const hosts = Array.from({ length: 150 }, (_, n) => hostOf(`h${n}`));
  await using store = await storeWith(hosts, [workloadOf({ kind: 'omni' })]);
  const before = await readCell(store);
  const transactions = transactionsOf(planFor('web', before), before);
  assert.ok(transactions.length > 1);
  for (const { compare, then } of transactions) assert.ok((compare?.length ?? 0) <= 128 && then.length <= 128);
  const ending = transactions.map(({ then }) => then.some((operation) => 'delete' in operation));
  assert.deepEqual(
    ending,
    transactions.map((_, at) => at === transactions.length - 1),
  );
  assert.equal((await commitAll(store, 'web')).jobsOf('web').length, 150);
});

test('the reasons a job does not fit are told apart', async () => {
  await using store = await storeWith([hostOf('h1')], []);
  const room = new Rooms(await readCell(store)).get('h1');
  assert.ok(room !== undefined);
  const ask = (memoryBytes: number, cpuMillis: number) =>
    findObstacle(room, workloadOf({ template: { resources: { memoryBytes, cpuMillis } } }));
  assert.equal(ask(1_000 * mebibyte, 4_000), undefined);
  assert.equal(ask(1_000 * mebibyte + 1, 0), 'memory');
  assert.equal(ask(1, 4_001), 'cpu');
});

test('of two random hosts the emptier gets an ephemeral job', async () => {
  const full = workloadOf({ id: 'full', kind: 'omni', constraints: [{ attribute: 'a', values: ['x'] }] });
  await using store = await storeWith([hostOf('h1', { attributes: { a: 'x' } }), hostOf('h2')], [full]);
  const rooms = new Rooms(await commitAll(store, 'full'));
  const candidates = rooms
    .all()
    .map((room) => ({ room, sameWorkload: 0, sameZone: 0, failures: 0, isPreferred: false }));
  for (const value of [0, 0.4, 0.99]) assert.equal(rankEphemeral(candidates, () => value)?.room.host.id, 'h2');
  assert.equal(
    rankEphemeral([], () => 0),
    undefined,
  );
});

test('a state folded change by change equals one read at once', async () => {
  await using store = await storeWith([hostOf('h1')], [workloadOf({ count: 3 }), workloadOf({ id: 'api', count: 2 })]);
  await using mirror = await openMirror<CellEntry>({
    store,
    prefix: cellPrefix,
    decode: decodeCellEntry,
    log: silentLogger(),
  });
  const folded = new CellState();
  for (const [key, { value }] of mirror.snapshot.entries) folded.fold({ key, after: value });
  mirror.onChange((change) => folded.fold(change));
  await commitAll(store, 'web', 'api');
  await stepHost(store, 'h1', wellBehaved, { now, newId });
  await store.transact({ then: workloadRemoval('api', { now, newId }) });
  await commitAll(store, 'api');
  await stepHost(store, 'h1', wellBehaved, { now, newId });
  const cell = await commitAll(store, 'api');
  await mirror.reached((await store.list(cellPrefix)).revision);
  for (const id of ['web', 'api']) {
    assert.deepEqual(folded.jobsOf(id), cell.jobsOf(id));
    assert.deepEqual(folded.statusesOf(id), cell.statusesOf(id));
  }
  assert.deepEqual([...folded.claims.keys()], [...cell.claims.keys()]);
});
