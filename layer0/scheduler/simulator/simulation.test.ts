/** What holds for any number of schedulers, whatever happens to their hosts, at every revision. */
import * as fc from 'fast-check';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cellKeys } from '../cell.ts';
import { evaluationSchema } from '../evaluation.ts';
import type { CellColumns } from '../columns/cell-columns.ts';
import { evaluationPut } from '../evaluations.ts';
import { findViolations } from '../invariants.ts';
import { hostOf, mebibyte, workloadInputOf } from '../testing.ts';
import { measureConflicts } from './conflicts.ts';
import { Simulation } from './simulation.ts';

const hostsOf = (count: number) =>
  Array.from({ length: count }, (_, at) =>
    hostOf(`h${at}`, {
      attributes: { zone: `z${at % 3}` },
      capacity: { memoryBytes: 10 * 100 * mebibyte, cpuMillis: 4_000 },
    }),
  );

/** Everything that the store ends up with, for comparing runs. */
const storeOf = ({ database }: Simulation) => JSON.stringify(database.list('/'));
const claimed = (cell: CellColumns) => [...cell.claims.values()].reduce((sum, { value }) => sum + value.jobs, 0);

test('eight schedulers that are asked for more than there is fill every host and over-commit none', () => {
  fc.assert(
    fc.property(fc.nat(), fc.constantFrom('service', 'ephemeral'), (seed, kind) => {
      const world = new Simulation({ seed, hosts: hostsOf(20), schedulers: 8, isChecked: true });
      // 240 jobs, room for 200.
      for (let n = 0; n < 24; n += 1) {
        world.after(n % 5, () => world.change(workloadInputOf({ id: `w${n}`, kind, count: 10 })));
      }
      world.run(30);
      world.runUntil(() => world.isQuiet(), 100_000);
      assert.equal(world.cell.jobCount, 200);
      assert.equal(claimed(world.cell), 200);
      for (const { ledger } of world.cores) {
        for (const [hostId, { value }] of world.cell.claims) {
          const { memoryBytes } = ledger.table.usedOf(ledger.table.indexOf(hostId) ?? -1);
          assert.equal(memoryBytes, value.memoryBytes, `${hostId} by a scheduler's own book`);
        }
      }
      const waiting = [...world.cell.evaluations.values()].map(({ value }) => value);
      assert.ok(waiting.every(({ state, reason }) => state === 'blocked' && reason?.includes('memory') === true));
      assert.equal(
        waiting.reduce((sum, one) => sum + (one.waiting ?? 0), 0),
        40,
      );
      assert.deepEqual(world.violations, []);
    }),
    { numRuns: 10, seed: 1 },
  );
});

test('room for one job is taken by one of many that wait, and hardly any other scheduler tries to', () => {
  const world = new Simulation({ seed: 1, hosts: hostsOf(16), schedulers: 16, hasAgents: true, isChecked: true });
  for (let n = 0; n < 160; n += 1) world.change(workloadInputOf({ id: `w${n}` }));
  world.run(8_000);
  for (let n = 0; n < 60; n += 1) world.change(workloadInputOf({ id: `late${n}` }));
  world.run(20_000);
  const before = world.counts;
  for (let n = 0; n < 10; n += 1) {
    const { placements } = world.counts;
    world.remove(`w${n}`);
    world.runUntil(() => world.counts.placements > placements, 1_000);
    world.run(500);
  }
  const { placements, refusals } = world.counts;
  assert.equal(placements - before.placements, 10);
  assert.ok(refusals - before.refusals <= 5, `${refusals - before.refusals} transactions were refused`);
  assert.deepEqual(world.violations, []);
});

test('the same seed gives the same run, another one another', () => {
  const run = (seed: number) => {
    const world = new Simulation({ seed, hosts: hostsOf(10), schedulers: 4, hasAgents: true, isChecked: true });
    for (let n = 0; n < 10; n += 1) world.after(n, () => world.change(workloadInputOf({ id: `w${n}`, count: 7 })));
    world.run(5_000);
    return storeOf(world);
  };
  assert.equal(run(1), run(1));
  assert.notEqual(run(1), run(2));
});

test('a store that answers after more than a minute: what is on its way is not planned once more', () => {
  const callMs = { minMs: 70_000, maxMs: 70_000 };
  const world = new Simulation({ seed: 1, hosts: hostsOf(2), schedulers: 1, isChecked: true, callMs });
  world.change(workloadInputOf({ count: 4 }));
  world.run(400_000);
  assert.deepEqual(
    world.cores.map(({ counts }) => counts.gaveUp),
    [0],
  );
  assert.deepEqual([world.counts.refusals, world.cell.jobCount], [0, 4]);
  assert.deepEqual(world.violations, []);
});

test('of many evaluations of one workload the first and the last are carried out, and the others name the last', () => {
  const world = new Simulation({ seed: 1, hosts: hostsOf(2), schedulers: 1 });
  world.change(workloadInputOf({ count: 4 }));
  for (let n = 0; n < 3; n += 1)
    world.write([evaluationPut('web', 'health', { ...world.context, now: world.now + n })]);
  world.run(1_000);
  const ends = world.database
    .list(cellKeys.evaluations)
    .entries.toSorted((a, b) => a.createRevision - b.createRevision)
    .map(({ value }) => evaluationSchema.parse(JSON.parse(value)));
  assert.deepEqual(
    ends.map(({ state }) => state),
    ['complete', 'cancelled', 'cancelled', 'complete'],
  );
  assert.deepEqual([ends[1]?.nextId, ends[2]?.nextId], [ends[3]?.id, ends[3]?.id]);
});

type Mishap = { host: number; atMs: number; forMs: number };
const mishap: fc.Arbitrary<Mishap> = fc.record({
  host: fc.nat(9),
  atMs: fc.nat(3_000),
  forMs: fc.constantFrom(200, 900, 1_002, 1_500, 4_000),
});

test('hosts come and go, and in the end everything that was asked for runs, once', () => {
  fc.assert(
    fc.property(fc.nat(), fc.array(mishap, { maxLength: 12 }), fc.boolean(), (seed, mishaps, singleton) => {
      const hosts = hostsOf(10);
      const world = new Simulation({ seed, hosts, schedulers: 4, hasAgents: true, isChecked: true });
      for (let n = 0; n < 8; n += 1) world.change(workloadInputOf({ id: `w${n}`, count: 5, singleton }));
      world.after(1_000, () => world.change(workloadInputOf({ id: 'w0', count: 5, version: 'v2', singleton })));
      world.after(1_500, () => world.remove('w7'));
      for (const { host, atMs, forMs } of mishaps) {
        const record = hosts[host];
        if (record === undefined) continue;
        world.after(atMs, () => world.loseHost(record.id));
        world.after(atMs + forMs, () => world.returnHost(record));
      }
      world.run(10_000);
      const isDone = () =>
        world.isQuiet() &&
        Array.from({ length: 7 }, (_, n) => world.cell.jobsOf(`w${n}`)).every(
          (jobs) =>
            jobs.length === 5 && jobs.every(({ desired, status }) => desired === 'run' && status?.state === 'running'),
        );
      world.runUntil(isDone, 120_000);
      world.runUntil(() => world.cell.jobsOf('w7').length === 0, 120_000);
      assert.ok(world.cell.jobsOf('w0').every(({ version }) => version === 'v2'));
      assert.deepEqual([...new Set(world.violations)], []);
      assert.deepEqual(findViolations(world.cell), []);
    }),
    { numRuns: 40, seed: 1 },
  );
});

test('schedulers with a home each hardly ever meet, even when the cell is nearly full', () => {
  const options = { hosts: 400, perSecond: 1_000, seed: 7 };
  assert.equal(measureConflicts({ ...options, schedulers: 1, fill: 0.6 }).conflicts, 0);
  assert.ok(measureConflicts({ ...options, schedulers: 4, fill: 0.6 }).perTransaction <= 0.01);
  const { perTransaction } = measureConflicts({ ...options, schedulers: 8, fill: 0.9 });
  assert.ok(perTransaction <= 0.06, `${perTransaction} conflicts per transaction`);
});
