/** What a scheduler cannot read, as a later version wrote it: nothing is stopped, moved or begun a second time because of that. */
import type { Entry } from '@flynn/store/store';
import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import { z } from 'zod';
import { assignmentSchema, cellKeys } from './cell.ts';
import { evaluationSchema } from './evaluation.ts';
import { drained } from './operator-settings.ts';
import { Simulation } from './simulator/simulation.ts';
import type { SimulationOptions } from './simulator/simulation.ts';
import { hostOf, mebibyte, workloadInputOf } from './testing.ts';

const hosts = (...ids: string[]) => ids.map((id) => hostOf(id));

function worldOf(options: Partial<SimulationOptions> & Pick<SimulationOptions, 'hosts'>): Simulation {
  return new Simulation({ seed: 1, schedulers: 1, hasAgents: true, isChecked: true, ...options });
}

const objectSchema = z.record(z.string(), z.unknown());
const entryAt = (world: Simulation, key: string): Entry => {
  const entry = world.database.get(key);
  assert.ok(entry !== undefined, key);
  return entry;
};

/** As a later version has it: `more` is what this one does not understand. Answers how to take that back. */
function disguise(world: Simulation, key: string, more: object): () => void {
  const { value } = entryAt(world, key);
  world.write([{ put: key, value: JSON.stringify({ ...objectSchema.parse(JSON.parse(value)), ...more }) }]);
  return () => world.write([{ put: key, value }]);
}

/** The jobs that the store has, whoever can read them. */
function jobsIn({ database }: Simulation): { id: string; hostId: string; workloadId: string; desired: string }[] {
  return database
    .list(cellKeys.assignments)
    .entries.flatMap(({ key, value }) => {
      const [hostId = ''] = key.slice(cellKeys.assignments.length).split('/');
      const { groups } = assignmentSchema.parse({ ...objectSchema.parse(JSON.parse(value)), planId: 'p' });
      return groups.flatMap(({ workloadId, jobs }) =>
        jobs.map(({ id, desired }) => ({ id, hostId, workloadId, desired })),
      );
    })
    .sort((a, b) => (a.id < b.id ? -1 : 1));
}

const reasonsIn = ({ database }: Simulation, state: string) =>
  database
    .list(cellKeys.evaluations)
    .entries.map(({ value }) => evaluationSchema.parse(JSON.parse(value)))
    .flatMap((one) => (one.state === state ? (one.reason ?? '') : []));

const keysOf = ({ database }: Simulation, prefix: string) => database.list(prefix).entries.map(({ key }) => key);

test('the jobs of a workload that cannot be read stay as they are, and its evaluation says why', () => {
  const world = worldOf({ hosts: hosts('h1') });
  world.change(workloadInputOf({ count: 3 }));
  world.run(1_000);
  const before = jobsIn(world);
  assert.deepEqual(
    before.map(({ desired }) => desired),
    ['run', 'run', 'run'],
  );
  const key = cellKeys.workload('web');
  world.change(workloadInputOf({ count: 2 }));
  const restore = disguise(world, key, { constraints: [{ attribute: 'zone', operator: 'prefers', values: ['a'] }] });
  world.run(5_000);
  assert.deepEqual(reasonsIn(world, 'failed'), [], 'a host of a later version has some seconds for it');
  world.run(120_000);
  assert.deepEqual(jobsIn(world), before);
  const [reason = '', ...more] = reasonsIn(world, 'failed');
  assert.ok(reason.startsWith(`${key} cannot be read by this version`), reason);
  assert.deepEqual(more, [], 'it is said once');
  restore();
  world.run(60_000);
  assert.equal(jobsIn(world).length, 2, 'it goes on by itself once it can be read');
  assert.deepEqual(
    world.violations.filter((what) => !what.includes('does not decode')),
    [],
  );
});

test('a workload whose last plan cannot be read is not planned for', () => {
  const world = worldOf({ hosts: hosts('h1') });
  world.change(workloadInputOf({ count: 1 }));
  world.run(1_000);
  const restore = disguise(world, cellKeys.lastPlan('web'), { planId: 7 });
  world.change(workloadInputOf({ count: 2 }));
  world.run(20_000);
  assert.equal(jobsIn(world).length, 1);
  assert.match(reasonsIn(world, 'failed').join(), /^\/flynn\/cell\/plans\/web cannot be read/);
  restore();
  world.run(60_000);
  assert.equal(jobsIn(world).length, 2);
});

test('what stands in an assignment that cannot be read is not begun a second time, and goes on when it can be', () => {
  const world = worldOf({ hosts: hosts('h1', 'h2') });
  world.change(workloadInputOf({ count: 2, singleton: true }));
  world.change(workloadInputOf({ id: 'other', count: 1 }));
  world.run(1_000);
  const before = jobsIn(world);
  const hostId = before.find(({ workloadId }) => workloadId === 'web')?.hostId ?? '';
  const keys = keysOf(world, cellKeys.hostAssignments(hostId));
  const restores = keys.map((key) => disguise(world, key, { planId: { of: 'a later version' } }));
  world.run(120_000);
  assert.deepEqual(jobsIn(world), before);
  for (const restore of restores) restore();
  world.change(workloadInputOf({ count: 1, singleton: true }));
  world.run(2_000);
  assert.equal(jobsIn(world).filter(({ workloadId }) => workloadId === 'web').length, 1);
});

describe('a status that cannot be read', () => {
  /** Two jobs on two hosts of three; what the one on the second says cannot be read. */
  function unreadStatus(): { world: Simulation; ids: string[]; hostId: string } {
    const world = worldOf({ hosts: hosts('h1', 'h2', 'h3') });
    world.change(workloadInputOf({ count: 2 }));
    world.run(5_000);
    const jobs = jobsIn(world);
    const { id = '', hostId = '' } = jobs[1] ?? {};
    disguise(world, cellKeys.jobStatus(hostId, id), { state: 'hibernating' });
    world.run(60_000);
    assert.deepEqual(jobsIn(world), jobs, 'nothing is stopped or begun for it');
    return { world, ids: jobs.map((job) => job.id), hostId };
  }

  it('keeps nothing on a host that is lost', () => {
    const { world, ids, hostId } = unreadStatus();
    world.loseHost(hostId);
    world.run(60_000);
    const after = jobsIn(world);
    assert.equal(after.length, 2);
    assert.ok(after.some(({ id }) => id === ids[0]));
    assert.ok(after.every((job) => job.hostId !== hostId));
  });
  it('keeps nothing from being stopped with its workload', () => {
    const { world } = unreadStatus();
    world.remove('web');
    world.run(60_000);
    assert.ok(jobsIn(world).every(({ desired }) => desired === 'stop'));
  });
  it('keeps nothing on a host that drains', () => {
    const { world, hostId } = unreadStatus();
    const settings = drained({ cordoned: false, tags: {} }, {}, world.now);
    world.write([{ put: cellKeys.hostSettings(hostId), value: JSON.stringify(settings) }]);
    world.run(60_000);
    assert.ok(jobsIn(world).every((job) => job.hostId !== hostId || job.desired === 'stop'));
  });
});

test('an assignment that cannot be read is lost with its host, and holds up nobody there or elsewhere', () => {
  const world = worldOf({ hosts: hosts('h1', 'h2', 'h3') });
  world.change(workloadInputOf({ count: 2, singleton: true }));
  world.run(5_000);
  const [kept, lost] = jobsIn(world);
  assert.ok(kept !== undefined && lost !== undefined);
  const keys = keysOf(world, cellKeys.hostAssignments(lost.hostId));
  for (const key of keys) disguise(world, key, { planId: { of: 'a later version' } });
  world.run(60_000);
  assert.deepEqual(jobsIn(world), [kept, lost]);
  world.loseHost(lost.hostId);
  world.run(60_000);
  const elsewhere = () => jobsIn(world).filter(({ hostId }) => hostId !== lost.hostId);
  assert.equal(elsewhere().length, 2);
  assert.ok(elsewhere().some(({ id }) => id === kept.id));
  world.change(workloadInputOf({ count: 3, singleton: true }));
  world.run(5_000);
  assert.equal(elsewhere().length, 3);
});

test('what of a removed workload can be read is stopped, whatever else it has', () => {
  const world = worldOf({ hosts: hosts('h1', 'h2') });
  world.change(workloadInputOf({ count: 2 }));
  world.run(5_000);
  const [kept, hidden] = jobsIn(world);
  for (const key of keysOf(world, cellKeys.hostAssignments(hidden?.hostId ?? ''))) {
    disguise(world, key, { planId: { of: 'a later version' } });
  }
  world.remove('web');
  world.run(5_000);
  assert.ok(jobsIn(world).every(({ id, desired }) => id !== kept?.id || desired === 'stop'));
});

test('a host whose record cannot be read is not lost, and takes nothing new', () => {
  const world = worldOf({ hosts: hosts('h1', 'h2') });
  const input = workloadInputOf({ count: 2, singleton: true, spread: [] });
  world.change(input);
  world.run(1_000);
  const before = jobsIn(world);
  assert.deepEqual(
    before.map(({ hostId }) => hostId),
    ['h1', 'h2'],
  );
  disguise(world, cellKeys.host('h2'), { capacity: { memory: '1 GiB' } });
  world.run(120_000);
  assert.deepEqual(jobsIn(world), before);
  world.change({ ...input, count: 5 });
  world.run(2_000);
  const after = jobsIn(world);
  assert.equal(after.length, 5);
  assert.deepEqual(
    after.filter(({ hostId }) => hostId === 'h2'),
    before.filter(({ hostId }) => hostId === 'h2'),
  );
  // What it has can be stopped: that asks nothing of its record.
  world.remove('web');
  world.run(2_000);
  assert.deepEqual(
    jobsIn(world).filter(({ hostId }) => hostId !== 'h2'),
    [],
  );
  assert.ok(jobsIn(world).every(({ desired }) => desired === 'stop'));
});

test('a host whose settings cannot be read takes nothing new, and nothing leaves it for a tag that it may have', () => {
  for (const kind of ['service', 'omni']) {
    const world = worldOf({ hosts: hosts('h1', 'h2') });
    const tagged = JSON.stringify({ tags: { disk: 'ssd' } });
    world.write(['h1', 'h2'].map((id) => ({ put: cellKeys.hostSettings(id), value: tagged })));
    const constraints = [{ attribute: 'disk', values: ['ssd'] }];
    const input = workloadInputOf({ kind, count: kind === 'omni' ? 1 : 2, constraints, spread: [] });
    world.change(input);
    world.run(1_000);
    const before = jobsIn(world);
    assert.deepEqual(
      before.map(({ hostId }) => hostId),
      ['h1', 'h2'],
    );
    disguise(world, cellKeys.hostSettings('h2'), { cordoned: 'for new jobs of others' });
    world.run(60_000);
    assert.deepEqual(jobsIn(world), before, kind);
    world.change({ ...input, count: input.count + 1 });
    world.run(60_000);
    assert.equal(jobsIn(world).filter(({ hostId }) => hostId === 'h2').length, 1, kind);
    assert.ok(
      jobsIn(world).every(({ desired }) => desired === 'run'),
      kind,
    );
  }
});

test('a host that drains goes on draining while its record cannot be read', () => {
  const world = worldOf({ hosts: hosts('h1', 'h2') });
  world.change(workloadInputOf({ count: 2, spread: [] }));
  world.run(1_000);
  disguise(world, cellKeys.host('h2'), { capacity: 'unknown' });
  const settings = drained({ cordoned: false, tags: {} }, {}, world.now);
  world.write([{ put: cellKeys.hostSettings('h2'), value: JSON.stringify(settings) }]);
  world.run(60_000);
  assert.ok(jobsIn(world).every(({ hostId, desired }) => hostId === 'h1' || desired === 'stop'));
});

test('nor do omni jobs stay there, once the others are gone', () => {
  const world = worldOf({ hosts: hosts('h1', 'h2') });
  world.change(workloadInputOf({ kind: 'omni', count: 1 }));
  world.change(workloadInputOf({ id: 'other', count: 2, spread: [] }));
  world.run(5_000);
  assert.equal(jobsIn(world).filter(({ hostId }) => hostId === 'h2').length, 2);
  disguise(world, cellKeys.host('h2'), { capacity: 'unknown' });
  const settings = drained({ cordoned: false, tags: {} }, {}, world.now);
  world.write([{ put: cellKeys.hostSettings('h2'), value: JSON.stringify(settings) }]);
  world.run(60_000);
  assert.deepEqual(
    jobsIn(world).filter(({ hostId, desired }) => hostId !== 'h1' && desired === 'run'),
    [],
  );
});

test('jobs whose priority cannot be read make room for nobody', () => {
  const world = worldOf({ hosts: hosts('h1') });
  const large = { resources: { memoryBytes: 800 * mebibyte, cpuMillis: 100 } };
  world.change(workloadInputOf({ id: 'app', template: large }));
  world.run(1_000);
  const before = jobsIn(world);
  disguise(world, cellKeys.workload('app'), { update: 'blue_green' });
  world.change(workloadInputOf({ id: 'system', priority: 90, mayPreempt: true, template: large }));
  world.run(60_000);
  assert.deepEqual(jobsIn(world), before);
});

test('nor do those of which an assignment cannot be read: nobody would begin them elsewhere', () => {
  const world = worldOf({ hosts: hosts('h1', 'h2') });
  const large = { resources: { memoryBytes: 800 * mebibyte, cpuMillis: 100 } };
  world.change(workloadInputOf({ id: 'app', count: 2, template: large }));
  world.run(1_000);
  const before = jobsIn(world);
  const [key = ''] = keysOf(world, cellKeys.hostAssignments('h2'));
  disguise(world, key, { planId: { of: 'a later version' } });
  world.change(workloadInputOf({ id: 'system', priority: 90, mayPreempt: true, template: large }));
  world.run(60_000);
  assert.deepEqual(jobsIn(world), before);
});

test('one that is there again when the stops of its removal arrive is not stopped', () => {
  const world = worldOf({ hosts: hosts('h1'), callMs: { minMs: 10, maxMs: 10 }, watchMs: { minMs: 1, maxMs: 1 } });
  world.change(workloadInputOf({ count: 2 }));
  world.run(1_000);
  const before = jobsIn(world);
  world.remove('web');
  // The scheduler has heard of the removal and sent the stops, and they are on their way.
  world.after(5, () => world.change(workloadInputOf({ count: 2 })));
  world.run(1_000);
  assert.deepEqual(jobsIn(world), before);
  world.remove('web');
  world.run(1_000);
  assert.deepEqual(jobsIn(world), []);
});
