/** What becomes of plans between the planner and the store, whatever the store answers. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cellKeys, claimSchema } from './cell.ts';
import { workloadChange } from './evaluations.ts';
import { hostOf, hostPut, mebibyte, readCell, stepHost, wellBehaved, workloadInputOf } from './testing.ts';

import { commitAll, context, disturb, open, openCell, planOn, stateOf, used } from './committer-fixture.ts';

test('plans for several workloads go in one transaction, with one claim and one assignment per host', async () => {
  await using store = await openCell(['h1'], [{ id: 'a' }, { id: 'b' }, { id: 'c' }]);
  const hands = await open(store);
  for (const id of ['a', 'b', 'c']) hands.plan(id);
  const batch = hands.next();
  const puts = batch.transaction.then.flatMap((one) => ('put' in one ? [one.put] : []));
  assert.equal(puts.filter((key) => key.startsWith(cellKeys.claims)).length, 1);
  assert.equal(puts.filter((key) => key.startsWith(cellKeys.assignments)).length, 1);
  hands.committer.settle(batch, await store.transact(batch.transaction));
  assert.deepEqual(
    hands.committer.takeSettled().map(({ state }) => state),
    ['committed', 'committed', 'committed'],
  );
  assert.deepEqual(stateOf(await readCell(store)), []);
});

test('of two schedulers that planned for one host the second is refused, and what was not in the way is committed', async () => {
  await using store = await openCell(['h1', 'h2'], [{ id: 'b', count: 4 }]);
  const other = await open(store);
  const plan = other.plan('b');
  assert.equal(plan.hosts.size, 2);
  // Somebody else's claim on one of the two hosts only.
  const claim = claimSchema.parse({ memoryBytes: 0, cpuMillis: 0, planId: 'other', jobs: 0 });
  await store.transact({ then: [{ put: cellKeys.claim('h1'), value: JSON.stringify(claim) }] });
  const batch = other.next();
  other.committer.settle(batch, await store.transact(batch.transaction));
  assert.equal(used(other.ledger, 'h1'), 0, 'what was refused is free again, without another look at the store');
  const rest = other.next();
  assert.deepEqual([...rest.claims.keys()], ['h2']);
  other.committer.settle(rest, await store.transact(rest.transaction));
  const [settled] = other.committer.takeSettled();
  assert.equal(settled?.state, 'refused', 'the evaluation goes on');
  const cell = await readCell(store);
  assert.equal(cell.jobsOn('h2').length, 2);
  assert.equal(cell.evaluationsOf('b')[0]?.value.state, 'pending');
});

/** Somebody else placed something there meanwhile. */
test('only hosts on which a slot was placed are remembered as those of its volume', async () => {
  const volumes = [{ name: 'data', path: '/data' }];
  const constraints = [{ attribute: 'host', operator: 'distinct' as const }];
  await using store = await openCell(['h1', 'h2', 'h3'], [{ id: 'db', count: 2, constraints, template: { volumes } }]);
  await store.transact({
    then: [
      { put: cellKeys.lastPlan('db'), value: JSON.stringify({ planId: 'old', homes: { 0: 'h1', 1: 'h2' } }) },
      hostPut(hostOf('h2', { cordoned: true })),
    ],
  });
  const hands = await open(store);
  assert.deepEqual([...hands.plan('db').hosts.keys()].toSorted(), ['h1', 'h3']);
  await disturb(store, 'h3');
  assert.deepEqual(await commitAll(hands, store), ['refused']);
  const cell = await readCell(store);
  assert.deepEqual([cell.jobsOf('db').length, cell.homesOf('db')], [1, { 0: 'h1', 1: 'h2' }]);
});

test('the hosts of all parts of a plan are remembered, whether the watch told of the earlier ones or not', async () => {
  const hosts = Array.from({ length: 12 }, (_, at) => `h${at}`);
  const volumes = [{ name: 'data', path: '/data' }];
  const constraints = [{ attribute: 'host', operator: 'distinct' as const }];
  await using store = await openCell(hosts, [{ id: 'db', count: 12, constraints, template: { volumes } }]);
  const hands = await open(store, { maxOperations: 20, maxInFlight: 1 });
  hands.plan('db');
  assert.deepEqual(await commitAll(hands, store), ['committed']);
  const cell = await readCell(store);
  const homes = Object.fromEntries(cell.jobsOf('db').map(({ index, hostId }) => [index, hostId]));
  assert.deepEqual(cell.homesOf('db'), homes);
});

test('a claim that is less than its jobs come to is added up anew before it would go below nothing', async () => {
  await using store = await openCell(['h1'], [{ id: 'a', count: 3 }]);
  const first = await open(store);
  first.plan('a');
  await store.transact(first.next().transaction);
  const at = context();
  const claim = { memoryBytes: 100 * mebibyte, cpuMillis: 300, planId: 'x', jobs: 1, ports: {} };
  await store.transact({ then: [{ put: cellKeys.claim('h1'), value: JSON.stringify(claim) }] });
  await store.transact({ then: workloadChange(workloadInputOf({ id: 'a', count: 1 }), at) });
  const second = await open(store);
  second.plan('a');
  await store.transact(second.next().transaction);
  await stepHost(store, 'h1', wellBehaved, at);
  const third = await open(store);
  third.plan('a');
  await store.transact(third.next().transaction);
  const cell = await readCell(store);
  assert.equal(cell.jobsOn('h1').length, 1);
  assert.deepEqual(stateOf(cell), []);
});

test('two schedulers that plan for one workload on different hosts exclude each other', async () => {
  await using store = await openCell(['h1', 'h2'], [{ id: 'db', singleton: true }]);
  const [one, other] = [await open(store), await open(store)];
  // Each by an evaluation that only it knows of, as a repair is.
  for (const hands of [one, other]) hands.committer.submit(planOn(hands, hands === one ? 'h1' : 'h2'), 0);
  const [first, second] = [one.next(), other.next()];
  assert.notDeepEqual([...first.claims.keys()], [...second.claims.keys()]);
  one.committer.settle(first, await store.transact(first.transaction));
  other.committer.settle(second, await store.transact(second.transaction));
  assert.equal(one.committer.takeSettled()[0]?.state, 'committed');
  assert.equal(other.committer.takeSettled()[0]?.state, 'refused');
  assert.equal((await readCell(store)).jobsOf('db').length, 1);
});

test('a reply that was lost is no second commit', async () => {
  await using store = await openCell(['h1'], [{ id: 'a', count: 3 }]);
  const hands = await open(store);
  hands.plan('a');
  const batch = hands.next();
  const { revision } = await store.transact(batch.transaction);
  hands.committer.settle(batch, await store.transact(batch.transaction));
  const [settled] = hands.committer.takeSettled();
  assert.equal(settled?.state, 'committed');
  assert.equal(settled?.revision, revision);
  assert.equal((await readCell(store)).jobsOf('a').length, 3);
  assert.equal(hands.ledger.claimOf('h1').modRevision, revision);
});

test('a host that came back between plan and commit is another one', async () => {
  await using store = await openCell(['h1'], [{ id: 'a' }]);
  const hands = await open(store);
  hands.plan('a');
  const batch = hands.next();
  await store.transact({ then: [{ delete: cellKeys.host('h1') }] });
  await store.transact({ then: [hostPut(hostOf('h1'))] });
  const answer = await store.transact(batch.transaction);
  assert.equal(answer.succeeded, false);
  hands.committer.settle(batch, answer);
  assert.equal(hands.committer.takeSettled()[0]?.state, 'refused');
  assert.deepEqual((await store.list(cellKeys.assignments)).entries, []);
});

test('a scheduler whose own lease is over commits nothing any more', async () => {
  await using store = await openCell(['h1'], [{ id: 'a' }]);
  const { revision } = await store.transact({ then: [{ put: '/leader', value: '"me"' }] });
  const hands = await open(store, { fence: { key: '/leader', createRevision: revision } });
  hands.plan('a');
  const batch = hands.next();
  await store.transact({ then: [{ delete: '/leader' }] });
  hands.committer.settle(batch, await store.transact(batch.transaction));
  assert.equal(hands.committer.takeSettled()[0]?.state, 'refused');
  assert.ok(hands.committer.isFenced);
  hands.plan('a');
  assert.equal(hands.committer.next(0), undefined);
});

test('what the watch tells of before the answer is there is counted once', async () => {
  await using store = await openCell(['h1'], [{ id: 'a', count: 3 }]);
  const hands = await open(store);
  hands.plan('a');
  const batch = hands.next();
  const answer = await store.transact(batch.transaction);
  const { entries, revision } = await store.list(cellKeys.claims);
  for (const entry of entries) hands.cell.fold({ type: 'put', entry });
  hands.cell.advance(revision);
  hands.ledger.followClaim('h1', hands.cell);
  assert.equal(used(hands.ledger, 'h1'), 300, 'an evaluation planned just now would find no room');
  hands.committer.settle(batch, answer);
  assert.equal(used(hands.ledger, 'h1'), 300);
});

test('jobs of a version that the workload no longer has are not committed: its template may be gone', async () => {
  await using store = await openCell(['h1'], [{ id: 'a' }]);
  const hands = await open(store);
  hands.plan('a');
  const batch = hands.next();
  await store.transact({ then: workloadChange(workloadInputOf({ id: 'a', version: 'v2' }), context()) });
  hands.committer.settle(batch, await store.transact(batch.transaction));
  assert.equal(hands.committer.takeSettled()[0]?.state, 'refused');
  assert.equal(used(hands.ledger, 'h1'), 0);
});

test('a gang gets its hosts although there is always another plan for one of them', async () => {
  const distinct = [{ attribute: 'host', operator: 'distinct' as const }];
  const only = (host: string) => [{ attribute: 'host', values: [host] }];
  await using store = await openCell(
    ['h1', 'h2'],
    [
      { id: 'g', kind: 'gang', count: 2, constraints: distinct },
      { id: 'a', constraints: only('h1') },
      { id: 'b', constraints: only('h2') },
      { id: 'c', constraints: only('h1') },
    ],
  );
  const hands = await open(store);
  hands.plan('a');
  const first = hands.next();
  for (const id of ['g', 'b']) hands.plan(id);
  assert.equal(hands.committer.next(0), undefined, 'the newer one took a host the gang waits for');
  hands.plan('c');
  hands.committer.settle(first, await store.transact(first.transaction));
  const second = hands.next();
  assert.deepEqual([...second.claims.keys()].sort(), ['h1', 'h2']);
  assert.equal(second.parts.length, 3, 'the others go along');
  hands.committer.settle(second, await store.transact(second.transaction));
  assert.equal((await readCell(store)).jobsOf('g').length, 2);
});
