import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { HostRecord } from './cell.ts';
import type { Plan } from './plan.ts';
import { mergePlans } from './plan.ts';
import { hostOf, mebibyte, workloadOf } from './testing.ts';
import { ToyCell } from './toy-cell.ts';

const endOf = (plan: Plan) => plan.outcomes[0]?.end;
const cellWith = (...things: Parameters<ToyCell['put']>) => new ToyCell().put(...things);
const sized = (megabytes: number) => ({
  template: { resources: { memoryBytes: megabytes * mebibyte, cpuMillis: 100 } },
});
const ssd = { attribute: 'disk', operator: 'in' as const, values: ['ssd'] };
const unlessNo = { attribute: 'router', operator: 'not_in' as const, values: ['no'] };
const zoned = (id: string, zone: string, more: Partial<HostRecord> = {}) =>
  hostOf(id, { attributes: { zone }, ...more });

describe('a service', () => {
  it('is spread over zones, then hosts, as groups of jobs', () => {
    const cell = cellWith(zoned('h1', 'a'), zoned('h2', 'a'), zoned('h3', 'b'), workloadOf({ count: 4 }));
    const plan = cell.run('web');
    assert.deepEqual(cell.hostsOf('web'), ['h1', 'h2', 'h3', 'h3']);
    assert.deepEqual(
      cell.jobsOf('web').map(({ index }) => index),
      [0, 1, 2, 3],
    );
    assert.equal(plan.hosts.get('h3')?.add.length, 1, 'one group per workload and version');
    assert.equal(endOf(plan)?.state, 'complete');
  });
  it('claims in the table as it goes, so that plans made one after the other do not meet', () => {
    const cell = cellWith(hostOf('h1'), workloadOf({ count: 6 }), workloadOf({ id: 'api', count: 6 }));
    const table = cell.table();
    const merged = mergePlans(
      [cell.plan('web', 'workload', { table }), cell.plan('api', 'workload', { table })],
      'both',
    );
    const jobs = merged.hosts.get('h1')?.add.flatMap((group) => group.jobs) ?? [];
    assert.equal(jobs.length, 10);
    assert.equal(new Set(jobs.map(({ id }) => id)).size, 10);
    assert.deepEqual(
      merged.outcomes.map(({ end }) => [end.placed, end.waiting ?? 0]),
      [
        [6, 0],
        [4, 2],
      ],
    );
  });
  it('goes elsewhere than where its job just failed, and back there if there is nowhere else', () => {
    const cell = cellWith(hostOf('h1'), workloadOf());
    cell.run('web');
    cell.report(cell.jobsOf('web')[0]?.id ?? '', 'failed');
    cell.put(hostOf('h2'));
    cell.now += 1_000;
    cell.run('web', 'job_ended');
    assert.deepEqual(cell.hostsOf('web'), ['h2']);
  });
  it('is placed where tags say, which win over what the host says of itself', () => {
    const constraints = [{ attribute: 'disk', values: ['ssd'] }];
    const cell = cellWith(
      hostOf('h1', { attributes: { disk: 'ssd' } }),
      hostOf('h2', { attributes: { disk: 'hdd' } }),
      workloadOf({ constraints }),
    );
    cell.settings.set('h1', { cordoned: false, tags: { disk: 'hdd' } });
    cell.settings.set('h2', { cordoned: false, tags: { disk: 'ssd' } });
    cell.run('web');
    assert.deepEqual(cell.hostsOf('web'), ['h2']);
    cell.step();
    cell.settings.set('h1', { cordoned: false, tags: { disk: 'ssd' } });
    cell.settings.delete('h2');
    cell.run('web', 'host_changed');
    assert.deepEqual(cell.hostsOf('web'), ['h1', 'h2'], 'it leaves a host that does not match any more, start first');
    cell.step();
    cell.run('web', 'health');
    assert.deepEqual(
      cell
        .jobsOf('web')
        .map(({ hostId, desired }) => `${hostId} ${desired}`)
        .sort(),
      ['h1 run', 'h2 stop'],
    );
  });
  it('keeps distinct values apart', () => {
    const constraints = [{ attribute: 'zone', operator: 'distinct' as const }];
    const cell = cellWith(zoned('h1', 'a'), zoned('h2', 'a'), zoned('h3', 'b'), workloadOf({ count: 3, constraints }));
    const plan = cell.run('web');
    assert.equal(cell.jobsOf('web').length, 2);
    assert.match(
      cell.blockedOf('web')[0]?.reason ?? '',
      /^2 placed, 1 waiting: zone is used by another job of the workload \(3 hosts\)$/,
    );
    assert.equal(endOf(plan)?.waiting, 1);
  });
});

describe('what fits nowhere', () => {
  it('waits with the reasons, in one evaluation that follows from the one that could not', () => {
    const hosts = [hostOf('h1'), zoned('h2', 'b', { cordoned: true }), zoned('h3', 'b')];
    const cell = cellWith(...hosts, workloadOf({ count: 12, constraints: [{ attribute: 'zone', values: ['b'] }] }));
    const plan = cell.run('web');
    assert.equal(cell.jobsOf('web').length, 10);
    const [blocked] = cell.blockedOf('web');
    assert.ok(blocked !== undefined);
    assert.equal(
      blocked.reason,
      '10 placed, 2 waiting: cordoned (1 host), memory (1 host full), zone is not b (1 host)',
    );
    assert.deepEqual(blocked.obstacles, { cordoned: 1, memory: 1, 'zone is not b': 1 });
    assert.deepEqual([blocked.placed, blocked.waiting, blocked.previousId], [10, 2, endOf(plan)?.id]);
    assert.deepEqual([endOf(plan)?.state, endOf(plan)?.blockedId], ['complete', blocked.id]);
  });
  it('goes on waiting without anything new to write, as long as the reason is the same', () => {
    const cell = cellWith(hostOf('h1'), workloadOf({ count: 11 }));
    cell.run('web');
    const [first] = cell.blockedOf('web');
    const plan = cell.run('web', 'job_ended');
    assert.deepEqual([plan.hosts.size, plan.outcomes[0]?.created, endOf(plan)?.blockedId], [0, [], first?.id]);
    assert.deepEqual(cell.blockedOf('web'), [first]);
  });
  it('has one blocked evaluation: the newest, which the older one names', () => {
    const cell = cellWith(hostOf('h1'), workloadOf({ count: 11 }));
    cell.run('web');
    const [first] = cell.blockedOf('web');
    cell.put(workloadOf({ count: 20 }));
    cell.run('web');
    const [second, ...more] = cell.blockedOf('web');
    assert.deepEqual([second?.waiting, more.length], [10, 0]);
    const older = cell.records.get(first?.id ?? '');
    assert.deepEqual([older?.state, older?.nextId], ['cancelled', second?.id]);
    cell.put(hostOf('h2'));
    cell.run('web', 'host_joined');
    assert.deepEqual([cell.jobsOf('web').length, cell.blockedOf('web').length], [20, 0]);
  });
  it('is said to be so when there is no host at all', () => {
    const cell = cellWith(workloadOf());
    cell.run('web');
    assert.equal(cell.blockedOf('web')[0]?.reason, '0 placed, 1 waiting: there is no host');
  });
  it('for a port that another family holds', () => {
    const hostNetwork = (app: string) => ({
      hostNetwork: true,
      ports: [{ port: 80 }],
      meta: { 'flynn.app': app, 'flynn.type': 'web' },
    });
    const router = { id: 'router', kind: 'omni', template: hostNetwork('router') };
    const cell = cellWith(
      hostOf('h1'),
      workloadOf(router),
      workloadOf({ id: 'other', template: hostNetwork('other') }),
    );
    cell.run('router');
    cell.run('other');
    assert.equal(cell.blockedOf('other')[0]?.reason, '0 placed, 1 waiting: port 80 is taken (1 host)');
    cell.step();
    cell.put(workloadOf({ ...router, version: 'v2' }));
    cell.run('router');
    assert.deepEqual(cell.hostsOf('router'), ['h1', 'h1'], 'two versions of one family share it');
  });
});

describe('a gang', () => {
  it('is placed whole or not at all', () => {
    const cell = cellWith(hostOf('h1'), workloadOf({ id: 'gang', kind: 'gang', count: 11 }));
    const plan = cell.run('gang');
    assert.deepEqual([plan.isAtomic, plan.hosts.size], [true, 0]);
    assert.equal(cell.blockedOf('gang')[0]?.reason, '0 placed, 11 waiting: memory (1 host full)');
    cell.put(hostOf('h2'));
    cell.run('gang', 'host_joined');
    assert.equal(cell.jobsOf('gang').length, 11);
  });
  it('gives back in the table what it could not use', () => {
    const cell = cellWith(hostOf('h1'), workloadOf({ id: 'gang', kind: 'gang', count: 11 }), workloadOf({ count: 10 }));
    const table = cell.table();
    cell.plan('gang', 'workload', { table });
    assert.equal(endOf(cell.plan('web', 'workload', { table }))?.placed, 10);
  });
  it('that is too large for one transaction fails, and is never split', () => {
    const hosts = Array.from({ length: 5 }, (_, n) => hostOf(`h${n}`));
    const cell = cellWith(...hosts, workloadOf({ id: 'gang', kind: 'gang', count: 5, ...sized(900) }));
    const plan = cell.run('gang', 'workload', { maxAtomicHosts: 4 });
    assert.deepEqual([endOf(plan)?.state, plan.hosts.size], ['failed', 0]);
    assert.equal(endOf(plan)?.reason, 'needs 5 hosts at once, and one transaction holds 4');
  });
});

describe('an omni workload for some hosts only', () => {
  const omni = workloadOf({ id: 'store', kind: 'omni', maxHosts: 2, update: 'stop_first' });
  const run = (cell: ReturnType<typeof cellWith>) => {
    cell.run('store');
    cell.step();
    return cell.hostsOf('store');
  };
  it('follows the hosts up to that many, and stays where it is', () => {
    const cell = cellWith(hostOf('h3'), omni);
    assert.deepEqual(run(cell), ['h3']);
    cell.put(hostOf('h2'));
    assert.deepEqual(run(cell), ['h2', 'h3']);
    cell.put(hostOf('h1'));
    assert.deepEqual(run(cell), ['h2', 'h3']);
  });
  it('takes another host for one that is lost or drained, and none that is cordoned', () => {
    const cell = cellWith(hostOf('h1'), hostOf('h2'), hostOf('h3'), hostOf('h4'), omni);
    assert.deepEqual(run(cell), ['h1', 'h2']);
    cell.settings.set('h3', { cordoned: true, tags: {} });
    cell.settings.set('h1', { cordoned: false, tags: {}, drain: { startedAt: cell.now, maxParallel: 1 } });
    for (let round = 0; round < 3; round += 1) run(cell);
    assert.deepEqual(cell.hostsOf('store'), ['h2', 'h4']);
  });
  it('leaves a host that does not match any more at once, and comes back to it', () => {
    const cell = cellWith(
      hostOf('h1'),
      hostOf('h2'),
      workloadOf({ id: 'store', kind: 'omni', constraints: [unlessNo] }),
    );
    assert.deepEqual(run(cell), ['h1', 'h2']);
    cell.settings.set('h2', { cordoned: false, tags: { router: 'no' } });
    for (let round = 0; round < 2; round += 1) run(cell);
    assert.deepEqual([cell.hostsOf('store'), cell.blockedOf('store').length], [['h1'], 0]);
    cell.settings.delete('h2');
    assert.deepEqual(run(cell), ['h1', 'h2']);
  });
  it('leaves hosts that a new version is not for when one of that runs: no host may meet what it asks', () => {
    const store = (version: string, more = {}) =>
      workloadOf({ id: 'store', kind: 'omni', update: 'stop_first', version, ...more });
    const cell = cellWith(hostOf('h1'), hostOf('h2'), store('v1'));
    const versions = () =>
      cell.jobsOf('store').map(({ hostId, version, desired }) => `${hostId} ${version} ${desired}`);
    run(cell);
    cell.put(store('v2', { constraints: [{ ...ssd }] }));
    for (let round = 0; round < 2; round += 1) run(cell);
    assert.deepEqual(versions().sort(), ['h1 v1 run', 'h2 v1 run'], 'nothing is stopped for what cannot begin');
    cell.settings.set('h2', { cordoned: true, tags: {}, drain: { startedAt: cell.now, maxParallel: 1 } });
    for (let round = 0; round < 2; round += 1) run(cell);
    assert.deepEqual(versions(), ['h1 v1 run'], 'a drain is none of its affairs');
    cell.put(hostOf('h3', { attributes: { disk: 'ssd' } }));
    for (let round = 0; round < 3; round += 1) run(cell);
    assert.deepEqual(versions(), ['h3 v2 run']);
  });
});

describe('a drain', () => {
  it('moves services, leaves omni jobs to the last, and starts nothing there', () => {
    const omni = workloadOf({ id: 'log', kind: 'omni' });
    const cell = cellWith(hostOf('h1'), workloadOf({ count: 2 }), omni);
    for (const id of ['web', 'log']) cell.run(id);
    cell.step();
    cell.put(hostOf('h2'));
    cell.settings.set('h1', { cordoned: false, tags: {}, drain: { startedAt: cell.now, maxParallel: 1 } });
    const seen: string[] = [];
    for (let round = 0; round < 8; round += 1) {
      for (const id of ['web', 'log']) cell.run(id, 'drain');
      const onHost = cell.jobsOn('h1').filter(({ desired }) => desired === 'run');
      seen.push(
        onHost
          .map(({ workloadId }) => workloadId)
          .sort()
          .join(' '),
      );
      const serving = cell
        .jobsOf('web')
        .filter(({ desired, status }) => desired === 'run' && status?.state === 'running');
      assert.ok(serving.length >= 2, 'what serves is never less than asked for');
      cell.step();
    }
    assert.deepEqual([...new Set(seen)], ['log web web', 'log web', 'log', '']);
    assert.deepEqual([cell.hostsOf('web'), cell.hostsOf('log')], [['h2', 'h2'], ['h2']]);
  });
  it('moves what keeps distinct values apart within the value it has: that is the leaving job’s no longer', () => {
    const constraints = [{ attribute: 'zone', operator: 'distinct' as const }];
    const cell = cellWith(zoned('h1', 'a'), zoned('h2', 'b'), workloadOf({ count: 2, constraints }));
    cell.run('web');
    cell.step();
    cell.put(zoned('h3', 'a'));
    cell.settings.set('h1', { cordoned: true, tags: {}, drain: { startedAt: cell.now, maxParallel: 1 } });
    for (let round = 0; round < 3; round += 1) {
      cell.run('web', 'drain');
      cell.step();
    }
    assert.deepEqual([cell.hostsOf('web'), cell.blockedOf('web').length], [['h2', 'h3'], 0]);
  });
  it('is looked at again at its deadline, by one evaluation however often it is looked at before', () => {
    const cell = cellWith(hostOf('h1'), workloadOf());
    cell.run('web');
    cell.step();
    const deadlineAt = cell.now + 60_000;
    cell.settings.set('h1', { cordoned: false, tags: {}, drain: { startedAt: cell.now, deadlineAt, maxParallel: 1 } });
    cell.run('web', 'drain');
    cell.run('web', 'health');
    const later = cell.evaluationsOf('web').filter(({ value }) => value.waitUntil !== undefined);
    assert.deepEqual(
      later.map(({ value }) => [value.waitUntil, value.cause]),
      [[deadlineAt, 'retry']],
    );
    cell.now = deadlineAt;
    cell.run('web', 'retry');
    assert.deepEqual(
      cell.jobsOf('web').map(({ desired }) => desired),
      ['stop'],
      'even with nowhere else to go',
    );
  });
});

it('an ephemeral workload asks for nothing any more when its runs have ended', () => {
  const cell = cellWith(hostOf('h1'), workloadOf({ id: 'run', kind: 'ephemeral', count: 25 }));
  let runs = 0;
  for (let round = 0; round < 10 && (cell.workload('run')?.value.count ?? 0) > 0; round += 1) {
    runs += [...cell.run('run').hosts.values()].flatMap(({ add }) => add.flatMap(({ jobs }) => jobs)).length;
    cell.step(() => 'failed');
  }
  assert.deepEqual([runs, cell.workload('run')?.value.count, cell.jobs.size], [25, 0, 0]);
});
