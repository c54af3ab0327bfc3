/** Several slots with volumes, no two on one host: each has its place, whatever happens. */
import * as fc from 'fast-check';
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { lastPlanSchema } from './cell.ts';
import { homesAfter } from './homes.ts';
import { hostOf, mebibyte, workloadOf } from './testing.ts';
import { ToyCell } from './toy-cell.ts';

const apart = { attribute: 'host', operator: 'distinct' as const, values: [] };
const db = (count: number, version = 'v1') =>
  workloadOf({
    id: 'db',
    count,
    version,
    constraints: [apart],
    update: 'stop_first',
    singleton: true,
    template: { volumes: [{ name: 'data', path: '/d' }], resources: { memoryBytes: 400 * mebibyte, cpuMillis: 100 } },
  });
const cellOf = (...hosts: string[]) => new ToyCell().put(...hosts.map((id) => hostOf(id)));

/** Until nothing more happens. */
function settle(cell: ToyCell): void {
  for (let round = 0; round < 40; round += 1) {
    cell.now += 61_000;
    if (cell.step() + cell.run('db').hosts.size === 0) return;
  }
  assert.fail('it never came to rest');
}

/** `0 h2 v1`, slot by slot. */
const placesOf = (cell: ToyCell) =>
  cell.jobsOf('db').map(({ index, hostId, version }) => `${index} ${hostId} ${version}`);
const hostsOf = (cell: ToyCell) => cell.jobsOf('db').map(({ hostId }) => hostId);
const reasonOf = (cell: ToyCell) => cell.blockedOf('db')[0]?.reason;

function replicated(count: number, ...hosts: string[]): ToyCell {
  const cell = cellOf(...hosts);
  cell.put(db(count));
  settle(cell);
  return cell;
}

describe('slots with volumes on hosts of their own', () => {
  it('are on one host each; what finds none waits and says why', () => {
    const cell = replicated(3, 'h1', 'h2');
    assert.deepEqual(cell.hostsOf('db'), ['h1', 'h2']);
    assert.equal(reasonOf(cell), '2 placed, 1 waiting: host is used by another job of the workload (2 hosts)');
    cell.put(hostOf('h3'));
    settle(cell);
    assert.deepEqual([cell.hostsOf('db'), reasonOf(cell)], [['h1', 'h2', 'h3'], undefined]);
  });

  it('that are more with a new version begin on hosts of their own, also while others are of the one before', () => {
    const cell = replicated(2, 'h1', 'h2', 'h3');
    cell.put(db(4, 'v2'));
    cell.run('db');
    const hosts = hostsOf(cell);
    assert.deepEqual([hosts.length, new Set(hosts).size], [3, 3], 'none beside one that is to be replaced');
    settle(cell);
    assert.deepEqual(cell.hostsOf('db'), ['h1', 'h2', 'h3']);
  });

  it('are none beside one that is told to stop and has not ended', () => {
    const cell = replicated(2, 'h1', 'h2');
    cell.put(db(1));
    cell.run('db');
    cell.put(db(2));
    cell.run('db');
    assert.equal(cell.jobsOf('db').length, 2, 'it waits for the one that ends');
    settle(cell);
    assert.deepEqual(cell.hostsOf('db'), ['h1', 'h2']);
  });

  it('stay where they are when their jobs crash, host by host', () => {
    const cell = replicated(3, 'h1', 'h2', 'h3', 'h4', 'h5');
    const before = placesOf(cell);
    for (const { id } of cell.jobsOf('db')) cell.report(id, 'failed');
    settle(cell);
    assert.deepEqual(placesOf(cell), before);
  });

  it('wait for the host that drains, and the others run on', () => {
    const cell = replicated(3, 'h1', 'h2', 'h3', 'h4');
    const before = placesOf(cell);
    const [, home = ''] = hostsOf(cell);
    const deadlineAt = cell.now + 100_000;
    cell.settings.set(home, { cordoned: false, tags: {}, drain: { startedAt: cell.now, maxParallel: 1, deadlineAt } });
    cell.run('db', 'drain');
    cell.step();
    assert.deepEqual(placesOf(cell), before, 'it cannot move');
    cell.now = deadlineAt;
    settle(cell);
    assert.equal(reasonOf(cell), `2 placed, 1 waiting: volume data is on ${home}, which is draining`);
    const running = cell.jobsOf('db').filter(({ status }) => status?.state === 'running');
    assert.deepEqual([running.length, running.some(({ hostId }) => hostId === home)], [2, false]);
    cell.settings.delete(home);
    settle(cell);
    assert.deepEqual([placesOf(cell), reasonOf(cell)], [before, undefined]);
  });

  it('that are less and more again are where they were, if those hosts take them, and elsewhere if not', () => {
    const cell = replicated(3, 'h1', 'h2', 'h3', 'h4', 'h5');
    const before = placesOf(cell);
    const [first, second = '', third = ''] = hostsOf(cell);
    cell.put(db(1));
    settle(cell);
    assert.deepEqual(hostsOf(cell), [first]);
    cell.put(db(3));
    settle(cell);
    assert.deepEqual(placesOf(cell), before);
    cell.put(db(0));
    settle(cell);
    cell.hosts.delete(second);
    cell.put(db(3));
    settle(cell);
    const [again, elsewhere = '', last] = hostsOf(cell);
    assert.deepEqual([again, last], [first, third], 'nobody else takes the place of one that comes back');
    assert.ok(![first, second, third].includes(elsewhere));
    cell.put(hostOf(second));
    settle(cell);
    assert.equal(hostsOf(cell)[1], elsewhere, 'where it has data now');
  });

  it('begin elsewhere once what kept them is forgotten: the host was removed for good', () => {
    const cell = replicated(3, 'h1', 'h2', 'h3', 'h4');
    const [, gone = ''] = hostsOf(cell);
    cell.lose(gone);
    settle(cell);
    assert.equal(reasonOf(cell), `2 placed, 1 waiting: volume data is on ${gone}, which is away`);
    for (const { id } of cell.jobsOn(gone)) cell.jobs.delete(id);
    settle(cell);
    assert.deepEqual(
      cell.hostsOf('db'),
      ['h1', 'h2', 'h3', 'h4'].filter((id) => id !== gone),
    );
  });

  it('never share a host nor leave their data, whatever happens, and are all there in the end', () => {
    const ids = ['h1', 'h2', 'h3', 'h4'];
    const event = fc.oneof(
      fc.record({ count: fc.integer({ min: 0, max: 5 }), version: fc.constantFrom('v1', 'v2', 'v3') }),
      fc.record({ host: fc.constantFrom(...ids), isThere: fc.boolean() }),
      fc.record({ drained: fc.constantFrom(...ids), isOn: fc.boolean() }),
      fc.record({ fails: fc.boolean() }),
    );
    fc.assert(
      fc.property(fc.array(event, { maxLength: 40 }), (events) => {
        const cell = replicated(2, ...ids);
        /** Where each slot has begun since the workload last had it. */
        const data = new Map(cell.jobsOf('db').map(({ index, hostId }) => [index, hostId]));
        const look = () => {
          const jobs = cell.jobsOf('db').filter(({ status }) => status?.isFinal !== true);
          const hosts = jobs.map(({ hostId }) => hostId);
          assert.equal(new Set(hosts).size, hosts.length, `two on one host: ${placesOf(cell).join(', ')}`);
          const { count = 0 } = cell.workload('db')?.value ?? {};
          for (const { index, hostId } of jobs.filter((job) => job.index < count)) {
            assert.equal(data.get(index) ?? hostId, hostId, `slot ${index} left its data`);
            data.set(index, hostId);
          }
        };
        for (const one of events) {
          cell.now += 20_000;
          if ('count' in one) {
            cell.put(db(one.count, one.version));
            // A slot that the workload does without may begin elsewhere when it has it again.
            for (const index of data.keys()) if (index >= one.count) data.delete(index);
          } else if ('host' in one) {
            cell.lostHosts = new Set([...cell.lostHosts].filter((id) => id !== one.host));
            if (one.isThere) cell.put(hostOf(one.host));
            else cell.lose(one.host);
          } else if ('drained' in one) {
            const drain = { startedAt: cell.now, maxParallel: 1, deadlineAt: cell.now + 30_000 };
            if (one.isOn) cell.settings.set(one.drained, { cordoned: false, tags: {}, drain });
            else cell.settings.delete(one.drained);
          } else cell.step(() => (one.fails ? 'failed' : 'running'));
          cell.run('db');
          look();
        }
        cell.settings.clear();
        cell.lostHosts = new Set();
        for (const id of ids) cell.put(hostOf(id));
        settle(cell);
        look();
        const { count, version } = cell.workload('db')?.value ?? { count: -1, version: '' };
        const up = cell.jobsOf('db').filter((job) => job.version === version && job.status?.state === 'running');
        assert.equal(up.length, Math.min(count, ids.length));
      }),
      { numRuns: 300, seed: 1 },
    );
  });
});

it('homes are kept with a plan of a workload with volumes, and plans of before are read', () => {
  const cell = cellOf('h1', 'h2');
  cell.put(db(2), workloadOf({ id: 'web' }));
  const plan = cell.plan('db');
  const homes = homesAfter(plan.hosts, 'db', { '0': 'h9', '7': 'h8' });
  assert.deepEqual(Object.keys(homes ?? {}), ['0', '1', '7']);
  assert.deepEqual([homes?.['7'], homes?.['0'] === 'h9'], ['h8', false]);
  assert.equal(homesAfter(cell.plan('web').hosts, 'web', {}), undefined);
  assert.deepEqual(lastPlanSchema.parse({ planId: 'p' }), { planId: 'p' });
});
