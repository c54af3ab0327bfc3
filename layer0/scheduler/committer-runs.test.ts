/** What becomes of plans between the planner and the store, whatever the store answers. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cellKeys } from './cell.ts';
import type { CellColumns } from './columns/cell-columns.ts';
import { workloadChange } from './evaluations.ts';
import { mebibyte, readCell, stepHost, workloadInputOf } from './testing.ts';

import { commitAll, context, disturb, open, openCell, stateOf } from './committer-fixture.ts';

async function openRuns(hosts: readonly string[]) {
  const constraints = [{ attribute: 'host', operator: 'distinct' as const }];
  const store = await openCell(hosts, [{ id: 'run', kind: 'ephemeral', count: hosts.length, constraints }]);
  const first = await open(store);
  assert.equal(first.plan('run').hosts.size, hosts.length);
  await commitAll(first, store);
  for (const id of hosts) {
    for (const state of ['running', 'done'] as const) await stepHost(store, id, () => state, context());
  }
  return store;
}

const runsOf = (cell: CellColumns) => [cell.jobsOf('run').length, cell.workload('run')?.value.count];

test('runs that ended are counted down host by host where a conflict lets go of some only, and none runs again', async () => {
  await using store = await openRuns(['h1', 'h2', 'h3']);
  const hands = await open(store);
  hands.plan('run');
  await disturb(store, 'h1');
  assert.deepEqual(await commitAll(hands, store), ['refused']);
  const cell = await readCell(store);
  assert.deepEqual([runsOf(cell), cell.jobsOn('h1').length], [[1, 1], 1]);
  const again = await open(store);
  const adds = [...again.plan('run').hosts.values()].flatMap(({ add }) => add);
  assert.deepEqual(adds, []);
  assert.deepEqual(await commitAll(again, store), ['committed']);
  assert.deepEqual(runsOf(await readCell(store)), [0, 0]);
});

test('runs that ended are counted down with each part of what no transaction holds', async () => {
  const hosts = Array.from({ length: 12 }, (_, at) => `h${at}`);
  await using store = await openRuns(hosts);
  const hands = await open(store, { maxOperations: 20, maxInFlight: 1 });
  hands.plan('run');
  let parts = 0;
  for (let batch = hands.committer.next(0); batch !== undefined; batch = hands.committer.next(0)) {
    parts += 1;
    hands.committer.settle(batch, await store.transact(batch.transaction));
    const [jobs, count] = runsOf(await readCell(store));
    assert.equal(count, jobs, 'a scheduler that dies here leaves runs to be placed once more');
  }
  assert.ok(parts > 2);
  assert.equal(hands.committer.takeSettled()[0]?.state, 'committed');
  assert.deepEqual(runsOf(await readCell(store)), [0, 0]);
});

/** Of four runs one had to make room for an urgent workload and another one ended by itself, on the other host. */
async function openPreempted(count = 4) {
  const resources = (megabytes: number) => ({
    template: { resources: { memoryBytes: megabytes * mebibyte, cpuMillis: 1 } },
  });
  const constraints = [{ attribute: 'host', operator: 'in' as const, values: ['h1'] }];
  const store = await openCell(
    ['h1', 'h2'],
    [
      { id: 'run', kind: 'ephemeral', count: 4, ...resources(400) },
      { id: 'urgent', priority: 90, mayPreempt: true, constraints, ...resources(500) },
    ],
  );
  const takeStep = async (id: string, hostId: string, hasEnded: (index: number) => boolean) => {
    const hands = await open(store);
    hands.plan(id);
    await commitAll(hands, store);
    const lowest = Math.min(...(await readCell(store)).jobsOn(hostId).map(({ index }) => index));
    for (const host of ['h1', 'h2']) {
      await stepHost(
        store,
        host,
        ({ index, desired }) =>
          desired === 'stop' || (host === hostId && index === lowest && hasEnded(index)) ? 'done' : 'running',
        context(),
      );
    }
  };
  await takeStep('run', 'h2', () => false);
  await takeStep('urgent', 'h2', () => true);
  const lowered = workloadInputOf({ id: 'run', kind: 'ephemeral', count, ...resources(400) });
  if (count !== 4) await store.transact({ then: workloadChange(lowered, context()) });
  const cell = await readCell(store);
  assert.deepEqual(
    cell
      .jobsOf('run')
      .flatMap(({ hostId, status }) => (status?.isFinal === true ? [hostId] : []))
      .toSorted(),
    ['h1', 'h2'],
  );
  return store;
}

test('of a plan that takes the room of a run and one of the run’s own, made on one view, the second is refused', async () => {
  const both = ['urgent', 'run'];
  for (const [order, count] of [
    [both, 4],
    [both.toReversed(), 4],
    [both, 3],
    [both.toReversed(), 3],
  ] as const) {
    await using store = await openPreempted(count);
    const all = await Promise.all(
      order.map(async (id) => {
        const hands = await open(store);
        hands.plan(id);
        return hands;
      }),
    );
    const states: string[] = [];
    for (const hands of all) states.push(...(await commitAll(hands, store)));
    assert.deepEqual(states, ['committed', 'refused']);
    assert.deepEqual(runsOf(await readCell(store)), [3, 3]);
    const again = await open(store);
    again.plan(order[1] ?? '');
    assert.deepEqual(await commitAll(again, store), ['committed']);
    const cell = await readCell(store);
    assert.deepEqual([...runsOf(cell), cell.jobsOf('urgent').length], [2, 2, 1]);
    assert.deepEqual(stateOf(cell), []);
  }
});

test('the same two by one scheduler are no two writes of the workload in one transaction', async () => {
  await using store = await openPreempted();
  const hands = await open(store);
  for (const id of ['urgent', 'run']) hands.plan(id);
  const batch = hands.next();
  const keys = batch.transaction.then.flatMap((one) => ('put' in one ? [one.put] : []));
  assert.equal(keys.filter((key) => key === cellKeys.workload('run')).length, 1);
  hands.committer.settle(batch, await store.transact(batch.transaction));
  assert.deepEqual(await commitAll(hands, store), ['committed', 'refused']);
  const cell = await readCell(store);
  assert.deepEqual([...runsOf(cell), cell.jobsOf('urgent').length], [3, 3, 1]);
});
