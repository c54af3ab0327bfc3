import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { HostRecord } from './cell.ts';
import type { Plan } from './plan.ts';
import { mergePlans } from './plan.ts';
import { hostOf, mebibyte, workloadOf } from './testing.ts';
import { ToyCell } from './toy-cell.ts';

const hostsOf = (cell: ToyCell, workloadId: string) =>
  cell
    .jobsOf(workloadId)
    .map(({ hostId }) => hostId)
    .sort();
const endOf = (plan: Plan) => plan.outcomes[0]?.end;
const blockedOf = (cell: ToyCell, workloadId: string) =>
  cell.evaluationsOf(workloadId).flatMap(({ value }) => (value.state === 'blocked' ? value : []));
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
    assert.deepEqual(hostsOf(cell, 'web'), ['h1', 'h2', 'h3', 'h3']);
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
    assert.deepEqual(hostsOf(cell, 'web'), ['h2']);
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
    assert.deepEqual(hostsOf(cell, 'web'), ['h2']);
    cell.step();
    cell.settings.set('h1', { cordoned: false, tags: { disk: 'ssd' } });
    cell.settings.delete('h2');
    cell.run('web', 'host_changed');
    assert.deepEqual(hostsOf(cell, 'web'), ['h1', 'h2'], 'it leaves a host that does not match any more, start first');
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
      blockedOf(cell, 'web')[0]?.reason ?? '',
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
    const [blocked] = blockedOf(cell, 'web');
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
    const [first] = blockedOf(cell, 'web');
    const plan = cell.run('web', 'job_ended');
    assert.deepEqual([plan.hosts.size, plan.outcomes[0]?.created, endOf(plan)?.blockedId], [0, [], first?.id]);
    assert.deepEqual(blockedOf(cell, 'web'), [first]);
  });
  it('has one blocked evaluation: the newest, which the older one names', () => {
    const cell = cellWith(hostOf('h1'), workloadOf({ count: 11 }));
    cell.run('web');
    const [first] = blockedOf(cell, 'web');
    cell.put(workloadOf({ count: 20 }));
    cell.run('web');
    const [second, ...more] = blockedOf(cell, 'web');
    assert.deepEqual([second?.waiting, more.length], [10, 0]);
    const older = cell.records.get(first?.id ?? '');
    assert.deepEqual([older?.state, older?.nextId], ['cancelled', second?.id]);
    cell.put(hostOf('h2'));
    cell.run('web', 'host_joined');
    assert.deepEqual([cell.jobsOf('web').length, blockedOf(cell, 'web').length], [20, 0]);
  });
  it('is said to be so when there is no host at all', () => {
    const cell = cellWith(workloadOf());
    cell.run('web');
    assert.equal(blockedOf(cell, 'web')[0]?.reason, '0 placed, 1 waiting: there is no host');
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
    assert.equal(blockedOf(cell, 'other')[0]?.reason, '0 placed, 1 waiting: port 80 is taken (1 host)');
    cell.step();
    cell.put(workloadOf({ ...router, version: 'v2' }));
    cell.run('router');
    assert.deepEqual(hostsOf(cell, 'router'), ['h1', 'h1'], 'two versions of one family share it');
  });
});

describe('a slot with volumes', () => {
  const db = (version: string) =>
    workloadOf({
      id: 'db',
      version,
      template: { volumes: [{ name: 'data', path: '/d' }], resources: { memoryBytes: 900 * mebibyte, cpuMillis: 100 } },
    });
  it('is filled in its own room on its host, cordoned or not, and waits while that is away', () => {
    const cell = cellWith(hostOf('h1', { cordoned: false }), db('v1'));
    cell.run('db');
    cell.step();
    cell.put(hostOf('h1', { cordoned: true }), hostOf('h2'), db('v2'));
    cell.run('db');
    cell.step();
    cell.run('db', 'job_ended');
    assert.deepEqual(
      cell.jobsOf('db').map(({ hostId, version }) => [hostId, version]),
      [['h1', 'v2']],
    );
    cell.lose('h1');
    cell.run('db', 'host_lost');
    assert.equal(blockedOf(cell, 'db')[0]?.reason, '0 placed, 1 waiting: volume data is on h1, which is away');
    assert.deepEqual(hostsOf(cell, 'db'), ['h1']);
    cell.put(hostOf('h1'));
    cell.lostHosts = new Set();
    cell.run('db', 'host_joined');
    assert.deepEqual([hostsOf(cell, 'db'), blockedOf(cell, 'db').length], [['h1'], 0]);
  });
  it('runs on where its host does not match any more; what is to take its place waits for that, and says so', () => {
    const onSsd = (version: string) => ({ ...db(version), constraints: [{ ...ssd }] });
    const cell = cellWith(hostOf('h1'), db('v1'));
    const jobs = () => cell.jobsOf('db').map(({ hostId, version, desired }) => `${hostId} ${version} ${desired}`);
    cell.run('db');
    cell.step();
    cell.put(hostOf('h2', { attributes: { disk: 'ssd' } }), onSsd('v2'));
    cell.run('db');
    assert.deepEqual(jobs(), ['h1 v1 run'], 'nothing is stopped for what cannot begin');
    const reason = '0 placed, 1 waiting: volume data is on h1, which does not match: disk is not ssd';
    assert.equal(blockedOf(cell, 'db')[0]?.reason, reason);
    cell.put(db('v1'));
    cell.run('db');
    assert.deepEqual([jobs(), blockedOf(cell, 'db').length], [['h1 v1 run'], 0], 'taken back, all is well');
    cell.put(onSsd('v2'));
    cell.settings.set('h1', { cordoned: false, tags: { disk: 'ssd' } });
    for (let round = 0; round < 3; round += 1) {
      cell.run('db');
      cell.step();
    }
    assert.deepEqual([jobs(), blockedOf(cell, 'db').length], [['h1 v2 run'], 0], 'and it begins where its data is');
    cell.settings.delete('h1');
    cell.run('db', 'host_changed');
    assert.deepEqual(jobs(), ['h1 v2 run'], 'a tag alone stops nothing that has data');
    cell.report(cell.jobsOf('db')[0]?.id ?? '', 'failed');
    cell.now += 60_000;
    cell.run('db', 'job_ended');
    assert.deepEqual([jobs(), blockedOf(cell, 'db')[0]?.reason], [['h1 v2 run'], reason], 'and nothing begins empty');
    assert.equal(cell.jobsOf('db')[0]?.status?.isFinal, true);
    cell.settings.set('h1', { cordoned: false, tags: { disk: 'ssd' } });
    cell.run('db', 'host_changed');
    cell.step();
    assert.deepEqual([jobs(), blockedOf(cell, 'db').length], [['h1 v2 run'], 0]);
    assert.equal(cell.jobsOf('db')[0]?.status?.state, 'running');
  });
  it('that can be left goes to a host that matches, once', () => {
    const cell = cellWith(hostOf('h1', { attributes: { disk: 'ssd' } }), hostOf('h2'));
    const volumes = [{ name: 'logs', path: '/d', isReplaceable: true }];
    cell.put(workloadOf({ id: 'db', constraints: [{ ...ssd }], template: { volumes } }));
    cell.run('db');
    cell.step();
    cell.settings.set('h1', { cordoned: false, tags: { disk: 'hdd' } });
    cell.settings.set('h2', { cordoned: false, tags: { disk: 'ssd' } });
    for (let round = 0; round < 3; round += 1) {
      cell.run('db', 'host_changed');
      cell.step();
    }
    assert.deepEqual(hostsOf(cell, 'db'), ['h2']);
  });
  it('that can be left, but for no other host, runs on, and goes to the first that matches', () => {
    const cell = cellWith(hostOf('h1'), hostOf('h2'));
    const volumes = [{ name: 'logs', path: '/d', isReplaceable: true }];
    const logs = (version: string, more = {}) => workloadOf({ id: 'db', version, template: { volumes }, ...more });
    const jobs = () => cell.jobsOf('db').map(({ hostId, version, desired }) => `${hostId} ${version} ${desired}`);
    const settle = () => {
      for (let round = 0; round < 3; round += 1) {
        cell.run('db', 'host_changed');
        cell.step();
      }
    };
    cell.put(logs('v1'));
    settle();
    const [{ hostId: own } = { hostId: '' }] = cell.jobsOf('db');
    const other = own === 'h1' ? 'h2' : 'h1';
    for (const version of ['v1', 'v2']) {
      cell.put(logs(version, { constraints: [{ ...ssd }] }));
      settle();
      assert.deepEqual(jobs(), [`${own} v1 run`], 'nothing is stopped for what cannot begin');
      const why = `it runs on ${own}, which does not match (disk is not ssd), and no host that does has room`;
      assert.equal(blockedOf(cell, 'db')[0]?.reason, `0 placed, 1 waiting: ${why}`);
    }
    cell.settings.set(other, { cordoned: true, tags: { disk: 'ssd' } });
    settle();
    assert.deepEqual(jobs(), [`${own} v1 run`]);
    cell.settings.set(other, { cordoned: false, tags: { disk: 'ssd' } });
    settle();
    assert.deepEqual([jobs(), blockedOf(cell, 'db').length], [[`${other} v2 run`], 0]);
  });
  it('has its next version wait while its host drains: nothing is stopped for what cannot begin', () => {
    const cell = cellWith(hostOf('h1'), db('v1'));
    const jobs = () => cell.jobsOf('db').map(({ hostId, version, desired }) => `${hostId} ${version} ${desired}`);
    cell.run('db');
    cell.step();
    const deadlineAt = cell.now + 60_000;
    cell.settings.set('h1', { cordoned: true, tags: {}, drain: { startedAt: cell.now, deadlineAt, maxParallel: 1 } });
    cell.put(hostOf('h2'), db('v2'));
    cell.run('db');
    assert.deepEqual(jobs(), ['h1 v1 run']);
    assert.equal(blockedOf(cell, 'db')[0]?.reason, '0 placed, 1 waiting: volume data is on h1, which is draining');
    cell.now = deadlineAt;
    cell.run('db', 'retry');
    assert.deepEqual(jobs(), ['h1 v1 stop'], 'its deadline holds');
    cell.step();
    cell.settings.delete('h1');
    cell.run('db', 'drain');
    assert.deepEqual(jobs(), ['h1 v2 run']);
  });
});

it('a slot with volumes that has grown too large keeps its place, and says what is missing', () => {
  const db = (version: string, megabytes: number) =>
    workloadOf({
      version,
      template: {
        volumes: [{ name: 'data', path: '/d' }],
        resources: { memoryBytes: megabytes * mebibyte, cpuMillis: 0 },
      },
    });
  const cell = cellWith(hostOf('h1'), db('v1', 300), workloadOf({ id: 'api', ...sized(600) }));
  for (const id of ['web', 'api']) cell.run(id);
  cell.step();
  cell.put(hostOf('h2'), db('v2', 500)).run('web');
  cell.step();
  const plan = cell.run('web', 'job_ended');
  assert.equal(plan.hosts.size, 0);
  assert.equal(blockedOf(cell, 'web')[0]?.reason, '0 placed, 1 waiting: memory (1 host full)');
  assert.deepEqual(hostsOf(cell, 'web'), ['h1'], 'its data is still known to be there');
  cell.put(db('v3', 300)).run('web');
  assert.deepEqual(
    cell.jobsOf('web').map(({ version, hostId }) => [version, hostId]),
    [['v3', 'h1']],
  );
});

describe('a gang', () => {
  it('is placed whole or not at all', () => {
    const cell = cellWith(hostOf('h1'), workloadOf({ id: 'gang', kind: 'gang', count: 11 }));
    const plan = cell.run('gang');
    assert.deepEqual([plan.isAtomic, plan.hosts.size], [true, 0]);
    assert.equal(blockedOf(cell, 'gang')[0]?.reason, '0 placed, 11 waiting: memory (1 host full)');
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
    return hostsOf(cell, 'store');
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
    assert.deepEqual(hostsOf(cell, 'store'), ['h2', 'h4']);
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
    assert.deepEqual([hostsOf(cell, 'store'), blockedOf(cell, 'store').length], [['h1'], 0]);
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
    assert.deepEqual([hostsOf(cell, 'web'), hostsOf(cell, 'log')], [['h2', 'h2'], ['h2']]);
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
    assert.deepEqual([hostsOf(cell, 'web'), blockedOf(cell, 'web').length], [['h2', 'h3'], 0]);
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
