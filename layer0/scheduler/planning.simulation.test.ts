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

test('one with a volume that grows gets room from lower ones on its host, and those with volumes run on', () => {
  const stored = (megabytes: number): Pick<WorkloadInput, 'template'> => ({
    template: { ...sized(megabytes).template, volumes: [{ name: 'data', path: '/data' }] },
  });
  forSeeds([1, 3], (worldOf) => {
    const world = worldOf(2);
    const on = (host: string) => ({ constraints: [{ attribute: 'host', values: [host] }] });
    const system = { priority: 80, mayPreempt: true };
    world.change(workloadInputOf({ id: 'blob', ...system, ...stored(400) }));
    settle(world, () => running(world, 'blob').length === 1);
    const home = world.cell.jobsOf('blob')[0]?.hostId ?? '';
    world.change(workloadInputOf({ id: 'db', ...on(home), ...stored(200) }));
    world.change(workloadInputOf({ id: 'low', count: 3, ...sized(390) }));
    settle(world, () => running(world, 'low').length === 3 && running(world, 'db').length === 1);
    const database = world.cell.jobsOf('db')[0]?.id;
    world.change(workloadInputOf({ id: 'blob', version: 'v2', ...system, ...stored(800) }));
    settle(world, () => running(world, 'blob').some(({ version }) => version === 'v2'));
    world.change(workloadInputOf({ id: 'urgent', ...system, ...on(home), ...sized(150) }));
    world.run(20_000);
    assert.equal(running(world, 'urgent').length, 0);
    assert.equal(blockedOnes(world, 'urgent').length, 1);
    assert.deepEqual([world.cell.jobsOf('db')[0]?.id, running(world, 'db').length], [database, 1]);
    assert.equal(running(world, 'low').length, 2);
  });
});

test('runs that have to make room for an urgent workload are over, whoever sees to them, and none begins once more', () => {
  forSeeds([1, 3], (worldOf) => {
    const world = worldOf(3);
    const runs = ['a', 'b', 'c'];
    for (const id of runs) world.change(workloadInputOf({ id, kind: 'ephemeral', count: 3, ...sized(300) }));
    const begun = new Set<string>();
    const isSettled = (isDone: () => boolean) =>
      settle(world, () => {
        for (const id of runs) for (const job of world.cell.jobsOf(id)) begun.add(job.id);
        return isDone();
      });
    const left = () => runs.reduce((sum, id) => sum + running(world, id).length, 0);
    isSettled(() => left() === 9);
    world.change(workloadInputOf({ id: 'urgent', count: 3, priority: 90, mayPreempt: true, ...sized(500) }));
    isSettled(() => running(world, 'urgent').length === 3);
    assert.ok(left() < 9);
    for (const id of ['h3', 'h4']) world.returnHost(hostOf(id));
    world.remove('urgent');
    isSettled(() => world.cell.jobsOf('urgent').length === 0);
    world.run(60_000);
    isSettled(() => true);
    assert.equal(begun.size, 9);
    for (const id of runs) assert.equal(world.cell.workload(id)?.value.count, running(world, id).length);
  });
});

test('room that runs make for an urgent workload is taken by nobody else: no more are stopped than it needs, however much waits', () => {
  const other = (id: string, count: number, kind: string) =>
    workloadInputOf({ id, kind, count, priority: 40, ...sized(300) });
  const builds = Array.from({ length: 19 }, (_, at) => other(`build${at}`, 1, 'ephemeral'));
  const shapes = [
    [other('run', 19, 'ephemeral')],
    builds,
    [...builds.slice(0, 6), other('run', 6, 'ephemeral'), other('web', 7, 'service')],
  ];
  const cases = shapes.flatMap((shape) => [
    { shape, count: 1, kind: 'service' },
    { shape, count: 3, kind: 'service' },
    { shape, count: 3, kind: 'gang' },
  ]);
  for (const { shape, count, kind: urgent } of cases) {
    forSeeds([1, 2, 3], (worldOf) => {
      const world = worldOf(3);
      for (const one of shape) world.change(one);
      const isFull = () => shape.reduce((sum, { id }) => sum + running(world, id).length, 0) === 9;
      settle(world, isFull);
      const begun = new Set<string>();
      const stopped = new Set<string>();
      const isSettled = (isDone: () => boolean) =>
        settle(world, () => {
          for (const { id, kind } of shape) {
            for (const job of world.cell.jobsOf(id)) {
              if (kind === 'ephemeral') begun.add(job.id);
              if (job.desired === 'stop') stopped.add(job.id);
            }
          }
          return isDone();
        });
      world.change(
        workloadInputOf({ id: 'urgent', kind: urgent, count, priority: 90, mayPreempt: true, ...sized(500) }),
      );
      const from = world.now;
      isSettled(() => running(world, 'urgent').length === count);
      assert.ok(world.now - from < 1_000, `it waited ${world.now - from} ms`);
      const until = world.now + 20_000;
      isSettled(() => world.now >= until);
      assert.equal(stopped.size, 2 * count);
      for (let at = 3; at < 9; at += 1) world.returnHost(hostOf(`h${at}`));
      const isPlaced = (id: string) => running(world, id).length === world.cell.jobsOf(id).length;
      isSettled(() => shape.every(({ id }) => blockedOnes(world, id).length === 0 && isPlaced(id)));
      const runs = shape.filter(({ kind }) => kind === 'ephemeral').map(({ id, count }) => ({ id, count }));
      assert.equal(
        begun.size,
        runs.reduce((sum, { count }) => sum + count, 0),
        'each run began once',
      );
      for (const { id } of runs) assert.equal(world.cell.workload(id)?.value.count, running(world, id).length);
    });
  }
});

test('a rebalance of many jobs is as many plans as it takes, one after the other', () => {
  forSeeds([1, 3], (worldOf) => {
    const world = worldOf(3);
    world.change(workloadInputOf({ id: 'web', count: 280, ...sized(1) }));
    settle(world, () => running(world, 'web').length === 280);
    world.returnHost(hostOf('h3'));
    settle(world, () => true);
    world.write([evaluationPut('web', 'rebalance', world.context)]);
    settle(world, () => world.cell.evaluationsOf('web').length === 0 && world.cell.jobsOf('web').length === 280);
    const counts = ['h0', 'h1', 'h2', 'h3'].map(
      (id) => running(world, 'web').filter(({ hostId }) => hostId === id).length,
    );
    assert.deepEqual(counts, [70, 70, 70, 70]);
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

const replicas = (count: number, more: Partial<WorkloadInput> = {}) =>
  workloadInputOf({
    id: 'db',
    count,
    constraints: [{ attribute: 'host', operator: 'distinct' }],
    update: 'stop_first',
    singleton: true,
    template: { ...sized(100).template, volumes: [{ name: 'data', path: '/data' }] },
    ...more,
  });
const homes = (world: Simulation) =>
  running(world, 'db')
    .map(({ index, hostId }) => `${index} ${hostId}`)
    .toSorted();

test('slots with volumes on hosts of their own are updated one after the other, and come back to their data', () => {
  forSeeds([1, 3], (worldOf) => {
    const world = worldOf(5);
    world.change(replicas(3));
    settle(world, () => running(world, 'db').length === 3);
    const before = homes(world);
    world.change(replicas(3, { version: 'v2' }));
    world.runUntil(() => {
      assert.ok(running(world, 'db').length >= 2, 'one at a time');
      return running(world, 'db').filter(({ version }) => version === 'v2').length === 3 && world.isQuiet();
    }, 120_000);
    assert.deepEqual(homes(world), before);
    world.change(replicas(1, { version: 'v2' }));
    settle(world, () => world.cell.jobsOf('db').length === 1);
    assert.deepEqual(homes(world), before.slice(0, 1), 'the highest slots go');
    world.change(replicas(4, { version: 'v3' }));
    settle(world, () => running(world, 'db').filter(({ version }) => version === 'v3').length === 4);
    assert.deepEqual(homes(world).slice(0, 3), before, 'and come back to where their data is, in a release after, too');
  });
});

test('of slots with volumes that lost a host one waits for it, and more than there are hosts wait for more', () => {
  forSeeds([1, 3], (worldOf) => {
    const world = worldOf(4);
    world.change(replicas(3));
    settle(world, () => running(world, 'db').length === 3);
    const before = homes(world);
    const [, lost = ''] = before[1]?.split(' ') ?? [];
    world.loseHost(lost);
    settle(world, () => blockedOnes(world, 'db').length === 1);
    assert.equal(
      blockedOnes(world, 'db')[0]?.value.reason,
      `2 placed, 1 waiting: volume data is on ${lost}, which is away`,
    );
    world.change(replicas(3, { version: 'v2' }));
    const isNew = ({ hostId, version }: { hostId: string; version: string }) => hostId === lost || version === 'v2';
    settle(world, () => blockedOnes(world, 'db').length === 1 && world.cell.jobsOf('db').every(isNew));
    world.returnHost(hostOf(lost));
    settle(world, () => running(world, 'db').filter(({ version }) => version === 'v2').length === 3);
    assert.deepEqual(homes(world), before, 'the others were updated meanwhile, it now');
    world.change(replicas(6, { version: 'v2' }));
    settle(world, () => running(world, 'db').length === 4 && blockedOnes(world, 'db').length === 1);
    const reason = '4 placed, 2 waiting: host is used by another job of the workload (4 hosts)';
    assert.equal(blockedOnes(world, 'db')[0]?.value.reason, reason);
    world.returnHost(hostOf('h9'));
    settle(world, () => running(world, 'db').length === 5);
    assert.deepEqual(homes(world).slice(0, 3), before);
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
