/** A scheduler's core with the store's answers and the watch's changes in an order that a test decides on. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MemoryDatabase } from '@flynn/store/memory-database';
import { cellKeys, cellPrefix } from './cell.ts';
import { SchedulerCore } from './core.ts';
import { workloadChange } from './evaluations.ts';
import { cellOf, hostOf, hostPut, mebibyte, statusOf, workloadInputOf } from './testing.ts';

function openCore(hosts: readonly string[], workloads: readonly Parameters<typeof workloadInputOf>[0][]) {
  const database = new MemoryDatabase();
  let ids = 0;
  const newId = () => `i${String((ids += 1)).padStart(6, '0')}`;
  database.transact({ then: hosts.map((id) => hostPut(hostOf(id))) });
  const write = (one: (typeof workloads)[number]) =>
    database.transact({ then: workloadChange(workloadInputOf(one), { now: 0, newId }) });
  for (const one of workloads) write(one);
  const core = new SchedulerCore({ id: 'h1', peers: ['h1'], newId, random: () => 0.5, tell: () => undefined });
  const world = { now: 1_000, seen: 0 };
  const hear = () => {
    const { entries, revision } = database.list(cellPrefix);
    const batch =
      world.seen === 0
        ? { revision, changes: entries.map((entry) => ({ type: 'put' as const, entry })) }
        : database.changesAfter(world.seen, cellPrefix);
    world.seen = batch.revision;
    core.fold(batch, world.now);
  };
  const change = (one: (typeof workloads)[number]) => {
    write(one);
    hear();
  };
  /** The next one there is within a second. */
  const nextBatch = () => {
    for (const until = world.now + 1_000; world.now < until; world.now += 10) {
      core.step(world.now);
      const batch = core.nextBatch(world.now);
      if (batch !== undefined) return batch;
    }
    return undefined;
  };
  /** Until there is nothing to send for a second. */
  const carryOut = () => {
    for (let batch = nextBatch(); batch !== undefined; batch = nextBatch()) {
      core.answered(batch, database.transact(batch.transaction), world.now);
      hear();
    }
  };
  const jobs = (id: string) => cellOf(database.list(cellPrefix).entries).jobsOf(id);
  hear();
  core.open(world.now);
  return { database, core, world, hear, change, nextBatch, carryOut, jobs };
}

test('a host that is back when a refused plan is made again is not lost: its job stays, and no second one begins', () => {
  const { database, core, world, hear, nextBatch, carryOut, jobs } = openCore(
    ['h1', 'h2', 'h3'],
    [{ id: 'db', singleton: true }],
  );
  carryOut();
  const [job] = jobs('db');
  assert.ok(job !== undefined);
  const status = JSON.stringify(statusOf(job, 'running'));
  database.transact({ then: [{ put: cellKeys.jobStatus(job.hostId, job.id), value: status }] });
  database.transact({ then: [{ delete: cellKeys.host(job.hostId) }] });
  hear();
  const batch = nextBatch();
  assert.equal(batch?.changes.size, 2, 'it is let go on the one host and placed on another');
  database.transact({ then: [hostPut(hostOf(job.hostId))] });
  const answer = database.transact(batch.transaction);
  assert.equal(answer.succeeded, false);
  hear();
  // Right then, before the next step.
  core.answered(batch, answer, world.now);
  carryOut();
  assert.deepEqual(
    jobs('db').map(({ id, desired }) => [id, desired]),
    [[job.id, 'run']],
  );
});

test('jobs that end by themselves wake nobody that waits for the room of those it had stopped', () => {
  const sized = (megabytes: number) => ({
    template: { resources: { memoryBytes: megabytes * mebibyte, cpuMillis: 1 } },
  });
  const { database, core, world, hear, change, carryOut, jobs } = openCore(
    ['h1'],
    [
      { id: 'high', priority: 90, ...sized(500) },
      { id: 'run', kind: 'ephemeral', count: 10, ...sized(10) },
      { id: 'app', ...sized(350) },
    ],
  );
  carryOut();
  change({ id: 'urgent', priority: 80, mayPreempt: true, ...sized(400) });
  carryOut();
  assert.deepEqual(
    jobs('app').map(({ desired }) => desired),
    ['stop'],
  );
  const end = (id: string) => {
    const before = core.counts.evaluations;
    for (const job of jobs(id)) {
      const value = JSON.stringify(statusOf(job, 'done', { isFinal: true, endedAt: world.now }));
      database.transact({ then: [{ put: cellKeys.jobStatus(job.hostId, job.id), value }] });
      hear();
      core.step(world.now);
    }
    return core.counts.evaluations - before;
  };
  assert.deepEqual([end('run'), end('app')], [0, 1]);
  carryOut();
  assert.equal(jobs('urgent').length, 1);
});

for (const answered of ['before it is blocked', 'once it is'] as const) {
  test(`room that a refused plan had held is taken at once by what waits for it, the refusal heard ${answered}`, () => {
    const sized = { template: { resources: { memoryBytes: 600 * mebibyte, cpuMillis: 1 } } };
    const { database, core, world, hear, change, nextBatch, carryOut, jobs } = openCore(
      ['h1'],
      [{ id: 'first', ...sized }],
    );
    const batch = nextBatch();
    assert.equal(batch?.changes.size, 1);
    change({ id: 'first', count: 0, ...sized });
    change({ id: 'second', ...sized });
    const answer = database.transact(batch.transaction);
    assert.equal(answer.succeeded, false, 'it is another workload by now');
    const second = nextBatch();
    assert.ok(second !== undefined, 'no room, as the first one holds it');
    const block = () => {
      core.answered(second, database.transact(second.transaction), world.now);
      hear();
    };
    if (answered === 'once it is') block();
    core.answered(batch, answer, world.now);
    if (answered === 'before it is blocked') block();
    carryOut();
    assert.equal(jobs('second').length, 1);
    assert.equal(jobs('first').length, 0);
  });
}

for (const order of ['the answer before the watch', 'the watch before the answer'] as const) {
  test(`what found no room is looked at once more where there was some before its plan was written, ${order} tells of that`, () => {
    const sized = { template: { resources: { memoryBytes: 600 * mebibyte, cpuMillis: 1 } } };
    const { database, core, world, hear, change, nextBatch, carryOut, jobs } = openCore(
      ['h1'],
      [{ id: 'first', ...sized }],
    );
    carryOut();
    change({ id: 'second', ...sized });
    const batch = nextBatch();
    assert.ok(batch !== undefined);
    database.transact({ then: [hostPut(hostOf('h2'))] });
    hear();
    const answer = database.transact(batch.transaction);
    assert.equal(answer.succeeded, true);
    if (order === 'the watch before the answer') hear();
    core.answered(batch, answer, world.now);
    hear();
    carryOut();
    assert.equal(jobs('second').length, 1);
  });
}
