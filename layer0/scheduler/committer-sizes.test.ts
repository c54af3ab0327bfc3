/** What no transaction of the store holds: in parts, in smaller ones, or not at all. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assignmentSchema, cellKeys, cellPrefix } from './cell.ts';
import type { Batch } from './commit.ts';
import { mebibyte, readCell, statusOf } from './testing.ts';

import { commitAll, open, openCell, planOn, stateOf, used } from './committer-fixture.ts';

test('what is too large for one transaction is committed in parts, and the evaluation ends with the last', async () => {
  const hosts = Array.from({ length: 30 }, (_, at) => `h${at}`);
  await using store = await openCell(hosts, [{ id: 'a', count: 60 }]);
  const hands = await open(store, { maxOperations: 20, maxInFlight: 1 });
  hands.plan('a');
  const sizes: number[] = [];
  for (let batch = hands.committer.next(0); batch !== undefined; batch = hands.committer.next(0)) {
    sizes.push(Math.max(batch.transaction.then.length, batch.transaction.compare?.length ?? 0));
    assert.equal((await readCell(store)).evaluationsOf('a').length, 1, 'it ended before its last part');
    hands.committer.settle(batch, await store.transact(batch.transaction));
  }
  assert.ok(sizes.length > 4 && sizes.every((size) => size <= 20), sizes.join());
  assert.equal(hands.committer.takeSettled()[0]?.state, 'committed');
  const cell = await readCell(store);
  assert.equal(cell.jobCount, 60);
  assert.equal(cell.evaluations.size, 0);
  assert.deepEqual(stateOf(cell), []);
});

test('a store that takes less than expected gets smaller transactions', async () => {
  const hosts = Array.from({ length: 20 }, (_, at) => `h${at}`);
  await using store = await openCell(hosts, [{ id: 'a', count: 20 }]);
  const hands = await open(store, { maxInFlight: 1 });
  hands.plan('a');
  const limit = 16;
  for (let batch = hands.committer.next(0); batch !== undefined; batch = hands.committer.next(0)) {
    if (batch.transaction.then.length > limit) hands.committer.tooLarge(batch, 'too many operations');
    else hands.committer.settle(batch, await store.transact(batch.transaction));
  }
  assert.equal((await readCell(store)).jobCount, 20);
});

test('larger transactions are tried again once the store has taken some', async () => {
  const hosts = Array.from({ length: 40 }, (_, at) => `h${at}`);
  const resources = { memoryBytes: 1_000, cpuMillis: 0 };
  const small = Array.from({ length: 64 }, (_, at) => ({ id: `small${at}`, template: { resources } }));
  await using store = await openCell(hosts, [{ id: 'a', count: 40 }, { id: 'b', count: 40 }, ...small]);
  const hands = await open(store, { maxInFlight: 1 });
  hands.plan('a');
  hands.committer.tooLarge(hands.next(), 'too many operations');
  const sizes: number[] = [];
  for (let batch = hands.committer.next(0); batch !== undefined; batch = hands.committer.next(0)) {
    sizes.push(batch.claims.size);
    hands.committer.settle(batch, await store.transact(batch.transaction));
  }
  assert.ok(sizes.length > 2 && sizes.every((size) => size <= 20), sizes.join());
  for (const { id } of small) {
    hands.plan(id);
    assert.deepEqual(await commitAll(hands, store), id === 'small0' ? ['committed', 'committed'] : ['committed']);
  }
  hands.plan('b');
  assert.equal(hands.next().claims.size, 40);
});

test('what goes whole or not at all is sent although smaller transactions are tried, and the store has the last word', async () => {
  const hosts = Array.from({ length: 30 }, (_, at) => `h${at}`);
  const constraints = [{ attribute: 'host', operator: 'distinct' as const }];
  const gang = { kind: 'gang', count: 30, constraints };
  await using store = await openCell(hosts, [
    { id: 'a', count: 30 },
    { id: 'g', ...gang },
    { id: 'never', ...gang },
  ]);
  const hands = await open(store, { maxInFlight: 1 });
  hands.plan('a');
  hands.committer.tooLarge(hands.next(), 'too many operations');
  hands.plan('g');
  assert.deepEqual(await commitAll(hands, store), ['committed', 'committed']);
  assert.equal((await readCell(store)).jobsOf('g').length, 30);
  hands.plan('never');
  hands.committer.tooLarge(hands.next(), 'the request is too large');
  const [settled] = hands.committer.takeSettled();
  assert.deepEqual([settled?.state, settled?.reason], ['impossible', 'the request is too large']);
  assert.equal(hands.committer.next(0), undefined);
});

test('a singleton that moves is given up when the store does not take that, and not sent for ever', async () => {
  await using store = await openCell(['h1', 'h2'], [{ id: 'db', singleton: true }]);
  const first = await open(store);
  first.committer.submit(planOn(first, 'h1'), 0);
  await commitAll(first, store);
  await store.transact({ then: [{ delete: cellKeys.host('h1') }] });
  const hands = await open(store);
  hands.committer.submit(planOn(hands, 'h2', ['h1']), 0);
  const batch = hands.next();
  assert.equal(batch.claims.size, 2);
  hands.committer.tooLarge(batch, 'the request is too large');
  assert.equal(hands.committer.takeSettled()[0]?.state, 'impossible');
  assert.equal(hands.committer.next(0), undefined);
});

test('an assignment is as long as what stays of it, however few of its jobs are let go', async () => {
  const hosts = Array.from({ length: 12 }, (_, at) => `h${at}`);
  const resources = { memoryBytes: 1_000, cpuMillis: 0 };
  const [jobs, bytesOf] = [3_000, ({ transaction }: Batch) => JSON.stringify(transaction.then).length];
  const runs = hosts.map((host) => ({
    id: `run-${host}`,
    kind: 'ephemeral',
    count: jobs,
    constraints: [{ attribute: 'host', values: [host] }],
    template: { resources },
  }));
  await using store = await openCell(hosts, runs);
  const first = await open(store);
  for (const { id } of runs) first.plan(id);
  await commitAll(first, store);
  const before = await readCell(store);
  const ended = hosts.flatMap((hostId) => before.jobsOn(hostId).slice(0, 1));
  for (const job of ended) {
    const value = JSON.stringify(statusOf(job, 'done', { isFinal: true, endedAt: 1 }));
    await store.transact({ then: [{ put: cellKeys.jobStatus(job.hostId, job.id), value }] });
  }
  const hands = await open(store, { maxInFlight: 1 });
  for (const { id } of runs) hands.plan(id);
  let parts = 0;
  for (let batch = hands.committer.next(0); batch !== undefined; batch = hands.committer.next(0)) {
    parts += 1;
    assert.ok(bytesOf(batch) < 1.2 * mebibyte, `${bytesOf(batch)} bytes`);
    hands.committer.settle(batch, await store.transact(batch.transaction));
  }
  assert.ok(parts > 2);
  const cell = await readCell(store);
  assert.equal(cell.jobCount, hosts.length * jobs - ended.length);
  assert.deepEqual(stateOf(cell), []);
});

test('a gang that no transaction holds is refused with a reason, and nothing of it is committed', async () => {
  const hosts = Array.from({ length: 30 }, (_, at) => `h${at}`);
  const constraints = [{ attribute: 'host', operator: 'distinct' as const }];
  await using store = await openCell(hosts, [{ id: 'g', kind: 'gang', count: 30, constraints }]);
  const hands = await open(store, { maxOperations: 20 });
  hands.plan('g');
  assert.equal(hands.committer.next(0), undefined);
  const [settled] = hands.committer.takeSettled();
  assert.equal(settled?.state, 'impossible');
  assert.match(settled?.reason ?? '', /30 hosts: more than one transaction may hold/);
  assert.equal(used(hands.ledger, 'h1'), 0);
  assert.deepEqual((await store.list(`${cellPrefix}assignments/`)).entries, []);
});

test('many jobs on one host are written in several keys, each well below what the store takes', async () => {
  const resources = { memoryBytes: 1_000, cpuMillis: 0 };
  await using store = await openCell(['h1'], [{ id: 'a', kind: 'ephemeral', count: 10_000, template: { resources } }]);
  const hands = await open(store);
  hands.plan('a');
  const batch = hands.next();
  hands.committer.settle(batch, await store.transact(batch.transaction));
  const { entries } = await store.list(cellKeys.assignments);
  assert.equal(entries.length, 3);
  assert.ok(entries.every(({ value }) => value.length < 600_000));
  for (const { key, value } of entries)
    assert.equal(assignmentSchema.parse(JSON.parse(value)).planId, key.split('/').at(-1));
  const cell = await readCell(store);
  assert.equal(cell.jobCount, 10_000);
  assert.deepEqual(stateOf(cell), []);
});

test('a gang that no transaction holds is refused whatever else is on its way, and one behind it is not', async () => {
  const hosts = Array.from({ length: 30 }, (_, at) => `h${at}`);
  const constraints = [{ attribute: 'host', operator: 'distinct' as const }];
  await using store = await openCell(hosts, [
    { id: 'a' },
    { id: 'large', kind: 'gang', count: 29, constraints },
    { id: 'small', kind: 'gang', count: 2, constraints },
  ]);
  const hands = await open(store, { maxOperations: 20 });
  hands.plan('a');
  const first = hands.next();
  for (const id of ['large', 'small']) hands.plan(id);
  const second = hands.committer.next(0);
  const states = hands.committer
    .takeSettled()
    .map(({ plan, state }) => [plan.outcomes[0]?.evaluation.workloadId, state]);
  assert.deepEqual(states, [['large', 'impossible']]);
  hands.committer.settle(first, await store.transact(first.transaction));
  const third = second ?? hands.next();
  hands.committer.settle(third, await store.transact(third.transaction));
  assert.equal((await readCell(store)).jobsOf('small').length, 2);
});

test('one plan that the store never takes does not make the transactions after it small', async () => {
  const hosts = Array.from({ length: 20 }, (_, at) => `h${at}`);
  await using store = await openCell(hosts, [{ id: 'bad' }, { id: 'a', count: 20 }, { id: 'b', count: 20 }]);
  const hands = await open(store, { maxInFlight: 1 });
  for (const id of ['bad', 'a']) hands.plan(id);
  for (let batch = hands.committer.next(0); batch !== undefined; batch = hands.committer.next(0)) {
    const isBad = batch.parts.some(({ plan }) => plan.outcomes[0]?.evaluation.workloadId === 'bad');
    if (isBad) hands.committer.tooLarge(batch, 'the value is too large');
    else hands.committer.settle(batch, await store.transact(batch.transaction));
  }
  assert.deepEqual(
    hands.committer.takeSettled().map(({ state }) => state),
    ['impossible', 'committed'],
  );
  hands.plan('b');
  assert.equal(hands.next().claims.size, 20);
});
