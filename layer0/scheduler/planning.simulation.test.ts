/** What operators ask for, carried out by several schedulers at once on virtual time, checked at every revision. */
import * as fc from 'fast-check';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cellKeys } from './cell.ts';
import type { OperatorSettings, WorkloadInput } from './cell.ts';
import { evaluationPut } from './evaluations.ts';
import { Simulation } from './simulator/simulation.ts';
import { hostOf, mebibyte, workloadInputOf } from './testing.ts';

const hosts = (count: number) => Array.from({ length: count }, (_, at) => hostOf(`h${at}`));
const sized = (megabytes: number): Pick<WorkloadInput, 'template'> => ({
  template: { image: { name: 'a' }, resources: { memoryBytes: megabytes * mebibyte, cpuMillis: 10 } },
});
const running = (world: Simulation, id: string) =>
  world.cell.jobsOf(id).filter(({ desired, status }) => desired === 'run' && status?.state === 'running');
const blockedOnes = (world: Simulation, id: string) =>
  world.cell.evaluationsOf(id).filter(({ value }) => value.state === 'blocked');
const settle = (world: Simulation, isDone: () => boolean) => world.runUntil(() => isDone() && world.isQuiet(), 120_000);
const set = (world: Simulation, hostId: string, more: Partial<OperatorSettings>) =>
  world.write([{ put: cellKeys.hostSettings(hostId), value: JSON.stringify({ cordoned: false, tags: {}, ...more }) }]);

function forSeeds(schedulers: number[], run: (world: (count: number) => Simulation) => void): void {
  fc.assert(
    fc.property(fc.nat(), fc.constantFrom(...schedulers), (seed, schedulers) => {
      let world: Simulation | undefined;
      run(
        (count) =>
          (world = new Simulation({ seed, hosts: hosts(count), schedulers, hasAgents: true, isChecked: true })),
      );
      assert.deepEqual(world?.violations, []);
    }),
    { numRuns: 8, seed: 1 },
  );
}

test('an urgent workload gets room from lower ones, which wait and come back when there is room', () => {
  forSeeds([1, 3], (worldOf) => {
    const world = worldOf(3);
    world.change(workloadInputOf({ id: 'low', count: 9, priority: 10, ...sized(300) }));
    settle(world, () => running(world, 'low').length === 9);
    world.change(workloadInputOf({ id: 'urgent', count: 3, priority: 90, mayPreempt: true, ...sized(500) }));
    settle(world, () => running(world, 'urgent').length === 3 && blockedOnes(world, 'low').length === 1);
    assert.equal(blockedOnes(world, 'urgent').length, 0);
    assert.ok(running(world, 'low').length >= 3, 'no more than needed were stopped');
    world.remove('urgent');
    settle(world, () => running(world, 'low').length === 9);
  });
});

test('a drained host is left by services without a gap, then by omni jobs; nothing goes there until it is over', () => {
  forSeeds([1, 3], (worldOf) => {
    const world = worldOf(3);
    world.change(workloadInputOf({ id: 'log', kind: 'omni', ...sized(10) }));
    world.change(workloadInputOf({ id: 'web', count: 6 }));
    settle(world, () => running(world, 'web').length === 6 && running(world, 'log').length === 3);
    set(world, 'h1', { drain: { startedAt: world.now, maxParallel: 1 } });
    world.runUntil(() => {
      assert.ok(running(world, 'web').length >= 6);
      const there = world.cell.jobsOn('h1').filter(({ desired }) => desired === 'run');
      if (there.some(({ workloadId }) => workloadId === 'web')) {
        assert.ok(
          there.some(({ workloadId }) => workloadId === 'log'),
          'omni jobs go last',
        );
      }
      return world.cell.jobsOn('h1').length === 0 && world.isQuiet();
    }, 60_000);
    set(world, 'h1', {});
    settle(world, () => running(world, 'log').length === 3);
    assert.deepEqual(
      world.cell.jobsOn('h1').map(({ workloadId }) => workloadId),
      ['log'],
      'services do not move back unasked',
    );
    for (let round = 0; round < 3; round += 1) {
      world.write([evaluationPut('web', 'rebalance', world.context)]);
      settle(world, () => world.cell.evaluationsOf('web').length === 0 && world.cell.jobsOf('web').length === 6);
    }
    const counts = ['h0', 'h1', 'h2'].map((id) => running(world, 'web').filter(({ hostId }) => hostId === id).length);
    assert.deepEqual(counts, [2, 2, 2]);
  });
});

test('what a drain cannot move is stopped at its deadline', () => {
  forSeeds([1, 2], (worldOf) => {
    const world = worldOf(2);
    world.change(workloadInputOf({ id: 'web', count: 2, ...sized(900) }));
    settle(world, () => running(world, 'web').length === 2);
    set(world, 'h1', { drain: { startedAt: world.now, deadlineAt: world.now + 30_000, maxParallel: 1 } });
    world.run(29_000);
    assert.equal(running(world, 'web').length, 2);
    assert.equal(blockedOnes(world, 'web').length, 1);
    settle(world, () => world.cell.jobsOn('h1').length === 0);
    assert.equal(running(world, 'web').length, 1);
    set(world, 'h1', {});
    settle(world, () => running(world, 'web').length === 2);
  });
});

test('a gang starts whole or not at all, and when room comes', () => {
  forSeeds([1, 3], (worldOf) => {
    const world = worldOf(3);
    world.change(workloadInputOf({ id: 'gang', kind: 'gang', count: 4, ...sized(600) }));
    settle(world, () => blockedOnes(world, 'gang').length === 1);
    assert.equal(world.cell.jobsOf('gang').length, 0);
    world.returnHost(hostOf('h3'));
    world.runUntil(() => {
      assert.ok([0, 4].includes(world.cell.jobsOf('gang').length), 'never a part of it');
      return running(world, 'gang').length === 4 && world.isQuiet();
    }, 60_000);
  });
});

test('a slot with volumes waits for its host and runs there again', () => {
  forSeeds([1, 2], (worldOf) => {
    const world = worldOf(3);
    const template = { ...sized(100).template, volumes: [{ name: 'data', path: '/data' }] };
    world.change(workloadInputOf({ id: 'db', template }));
    settle(world, () => running(world, 'db').length === 1);
    const home = running(world, 'db')[0]?.hostId ?? '';
    world.loseHost(home);
    settle(world, () => blockedOnes(world, 'db').length === 1);
    assert.match(
      blockedOnes(world, 'db')[0]?.value.reason ?? '',
      new RegExp(`volume data is on ${home}, which is away`),
    );
    world.returnHost(hostOf(home));
    settle(world, () => blockedOnes(world, 'db').length === 0);
    assert.deepEqual(
      running(world, 'db').map(({ hostId }) => hostId),
      [home],
    );
    world.change(workloadInputOf({ id: 'db', version: 'v2', template }));
    settle(world, () => running(world, 'db').some(({ version }) => version === 'v2'));
    assert.deepEqual(
      world.cell.jobsOf('db').map(({ hostId }) => hostId),
      [home],
    );
  });
});
