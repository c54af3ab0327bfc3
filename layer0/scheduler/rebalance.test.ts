import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { Evaluation } from './evaluation.ts';
import { hostOf, mebibyte, placedOf, workloadOf } from './testing.ts';
import { ToyCell } from './toy-cell.ts';

const counts = (cell: ToyCell, workloadId = 'web') =>
  Object.fromEntries(
    [...Map.groupBy(cell.jobsOf(workloadId), ({ hostId }) => hostId)].map(([id, jobs]) => [id, jobs.length]),
  );

function settle(cell: ToyCell): void {
  for (let round = 0; round < 20; round += 1) {
    const changes = cell.step();
    if (cell.run('web', 'health').hosts.size === 0 && changes === 0) return;
  }
  throw new Error('it never came to rest');
}

it('a rebalance evens the spread, a few jobs at a time, each running elsewhere before it stops', () => {
  const cell = new ToyCell().put(hostOf('h1'), workloadOf({ count: 8, maxParallel: 2 }));
  cell.run('web');
  settle(cell);
  cell.put(hostOf('h2'));
  settle(cell);
  assert.deepEqual(counts(cell), { h1: 8 }, 'nothing moves unasked');
  const moved: number[] = [];
  for (let round = 0; round < 4; round += 1) {
    const plan = cell.run('web', 'rebalance');
    moved.push(plan.hosts.get('h2')?.add.flatMap(({ jobs }) => jobs).length ?? 0);
    assert.equal([...plan.hosts.values()].flatMap(({ stop }) => stop).length, 0);
    const early = cell.run('web', 'health');
    assert.equal(early.hosts.size, 0, 'neither of the two stops before the new one runs');
    settle(cell);
  }
  assert.deepEqual(moved, [2, 2, 0, 0]);
  assert.deepEqual(counts(cell), { h1: 4, h2: 4 });
  assert.deepEqual(
    cell.jobsOf('web').map(({ index }) => index),
    [0, 1, 2, 3, 4, 5, 6, 7],
  );
});

it('of many jobs no plan moves more than 64; the rest follows at once, and no more are on their way than an update has', () => {
  const template = { resources: { memoryBytes: mebibyte, cpuMillis: 1 } };
  const cell = new ToyCell().put(hostOf('h1'), workloadOf({ count: 400, template }));
  cell.run('web');
  settle(cell);
  cell.put(hostOf('h2'));
  const moved: number[] = [];
  let asked: Evaluation | undefined = cell.evaluation('web', 'rebalance');
  while (asked !== undefined) {
    const plan = cell.planFor(asked);
    cell.apply(plan);
    moved.push(plan.hosts.get('h2')?.add.flatMap(({ jobs }) => jobs).length ?? 0);
    const created = plan.outcomes.flatMap((outcome) => outcome.created);
    assert.ok(created.every(({ cause, previousId }) => cause === 'rebalance' && previousId === asked?.id));
    asked = created[0];
    // Some run by then: what they take the place of goes, and that holds up nothing.
    cell.now += 10;
    for (const { id, index } of cell.jobsOn('h2')) if (index % 2 === 0) cell.report(id, 'running');
  }
  assert.deepEqual(moved, [64, 36]);
  assert.equal(new Set(cell.jobsOn('h2').map(({ index }) => index)).size, 100, 'none is moved twice');
  assert.equal(cell.run('web', 'rebalance').hosts.get('h2'), undefined, 'all that may be on their way are');
  settle(cell);
  assert.deepEqual(counts(cell), { h1: 300, h2: 100 });
});

it('a workload of which anything else is under way is left alone', () => {
  const cell = new ToyCell().put(hostOf('h1'), workloadOf({ count: 6 }));
  cell.run('web');
  settle(cell);
  cell.put(hostOf('h2'));
  const [first] = cell.jobsOf('web');
  cell.report(first?.id ?? '', 'starting');
  assert.equal(cell.run('web', 'rebalance').hosts.size, 0);
  cell.report(first?.id ?? '', 'running');
  cell.put(workloadOf({ count: 6, version: 'v2' }));
  cell.run('web');
  assert.equal(cell.jobsOn('h1').length + cell.jobsOn('h2').length, 10);
  assert.equal(cell.run('web', 'rebalance').hosts.size, 0);
});

it('a workload that leaves a host is left alone until it has, so that no more are on their way than the drain allows', () => {
  const cell = new ToyCell().put(hostOf('h1'), hostOf('h2'), workloadOf({ count: 8 }));
  cell.run('web');
  settle(cell);
  for (const id of ['h3', 'h4']) cell.put(hostOf(id));
  cell.settings.set('h1', { cordoned: false, tags: {}, drain: { startedAt: cell.now, maxParallel: 1 } });
  for (let round = 0; cell.jobsOn('h1').length > 0; round += 1) {
    assert.ok(round < 20);
    for (const cause of ['rebalance', 'drain', 'rebalance'] as const) {
      cell.run('web', cause);
      assert.ok(cell.jobsOf('web').filter(({ status }) => status === undefined).length <= 1);
    }
    cell.step();
  }
  for (let round = 0; round < 3; round += 1) {
    settle(cell);
    cell.run('web', 'rebalance');
  }
  settle(cell);
  assert.deepEqual(counts(cell), { h2: 3, h3: 3, h4: 2 });
});

it('jobs that a clock that was ahead has dated to later than now are moved once', () => {
  const template = { resources: { memoryBytes: mebibyte, cpuMillis: 1 } };
  const cell = new ToyCell().put(hostOf('h1'), workloadOf({ count: 400, template }));
  cell.now += 3_600_000;
  cell.run('web');
  cell.now -= 3_600_000;
  settle(cell);
  cell.put(hostOf('h2'));
  let asked: Evaluation | undefined = cell.evaluation('web', 'rebalance');
  let plans = 0;
  for (; asked !== undefined && plans < 10; plans += 1) {
    const plan = cell.planFor(asked);
    cell.apply(plan);
    assert.ok([...plan.hosts.values()].every(({ stop }) => stop.length === 0));
    asked = plan.outcomes.flatMap(({ created }) => created).find(({ cause }) => cause === 'rebalance');
    cell.now += 10;
  }
  assert.equal(plans, 2);
  settle(cell);
  assert.deepEqual(counts(cell), { h1: 300, h2: 100 });
});

it('a rebalance whose moves are taken back does not go on at once', () => {
  const template = { resources: { memoryBytes: mebibyte, cpuMillis: 1 } };
  const workload = workloadOf({ count: 400, template });
  const cell = new ToyCell().put(hostOf('h1'), workload);
  cell.now += 3_600_000;
  cell.run('web');
  cell.now -= 3_600_000;
  settle(cell);
  cell.put(hostOf('h2'));
  const isGoingOn = () => {
    const { outcomes } = cell.plan('web', 'rebalance');
    return outcomes.some(({ created }) => created.some(({ cause }) => cause === 'rebalance'));
  };
  assert.equal(isGoingOn(), true);
  // As a scheduler of the version before dates it.
  cell.assign(placedOf(workload, 'move', { hostId: 'h2', createdAt: cell.now }));
  assert.equal(isGoingOn(), false);
});

it('with an even spread, jobs go to hosts that are much emptier, and stay there', () => {
  const cell = new ToyCell().put(hostOf('h1'), workloadOf(), workloadOf({ id: 'other', count: 6 }));
  for (const id of ['other', 'web']) cell.run(id);
  cell.put(hostOf('h2'));
  settle(cell);
  cell.run('web', 'rebalance');
  settle(cell);
  assert.deepEqual(counts(cell), { h2: 1 });
  assert.equal(cell.run('web', 'rebalance').hosts.size, 0);
});

it('a workload whose slots may have one job only is left alone', () => {
  const cell = new ToyCell().put(hostOf('h1'), workloadOf({ count: 4, singleton: true }));
  cell.run('web');
  cell.put(hostOf('h2'));
  settle(cell);
  assert.equal(cell.run('web', 'rebalance').hosts.size, 0);
});

it('a host is emptier only if neither its memory nor its cpu is scarcer', () => {
  const cell = new ToyCell().put(hostOf('h1'), workloadOf({ id: 'web' }));
  cell.run('web');
  const others = (id: string, hostId: string, memoryBytes: number, cpuMillis: number) =>
    cell.assign(placedOf(workloadOf({ id, template: { resources: { memoryBytes, cpuMillis } } }), id, { hostId }));
  others('hot', 'h2', 10 * mebibyte, 3_700);
  others('large', 'h1', 500 * mebibyte, 100);
  cell.put(hostOf('h2'));
  settle(cell);
  assert.equal(cell.run('web', 'rebalance').hosts.size, 0, 'of the cpu of h2 nearly nothing would be left');
  cell.put(hostOf('h3'));
  cell.run('web', 'rebalance');
  settle(cell);
  assert.deepEqual(counts(cell), { h3: 1 });
});
