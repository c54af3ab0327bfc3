import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { hostOf, mebibyte, workloadOf } from './testing.ts';
import { ToyCell } from './toy-cell.ts';

const cellWith = (...things: Parameters<ToyCell['put']>) => new ToyCell().put(...things);
const slotsOf = (cell: ToyCell) =>
  cell.jobsOf('db').map(({ hostId, version, desired }) => `${hostId} ${version} ${desired}`);
const eachOnItsOwn = { attribute: 'host', operator: 'distinct' as const, values: [] };
const ssd = { attribute: 'disk', operator: 'in' as const, values: ['ssd'] };

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
    assert.equal(cell.blockedOf('db')[0]?.reason, '0 placed, 1 waiting: volume data is on h1, which is away');
    assert.deepEqual(cell.hostsOf('db'), ['h1']);
    cell.put(hostOf('h1'));
    cell.lostHosts = new Set();
    cell.run('db', 'host_joined');
    assert.deepEqual([cell.hostsOf('db'), cell.blockedOf('db').length], [['h1'], 0]);
  });
  it('runs on where its host does not match any more; what is to take its place waits for that, and says so', () => {
    const onSsd = (version: string) => ({ ...db(version), constraints: [{ ...ssd }] });
    const cell = cellWith(hostOf('h1'), db('v1'));
    const jobs = () => slotsOf(cell);
    cell.run('db');
    cell.step();
    cell.put(hostOf('h2', { attributes: { disk: 'ssd' } }), onSsd('v2'));
    cell.run('db');
    assert.deepEqual(jobs(), ['h1 v1 run'], 'nothing is stopped for what cannot begin');
    const reason = '0 placed, 1 waiting: volume data is on h1, which does not match: disk is not ssd';
    assert.equal(cell.blockedOf('db')[0]?.reason, reason);
    cell.put(db('v1'));
    cell.run('db');
    assert.deepEqual([jobs(), cell.blockedOf('db').length], [['h1 v1 run'], 0], 'taken back, all is well');
    cell.put(onSsd('v2'));
    cell.settings.set('h1', { cordoned: false, tags: { disk: 'ssd' } });
    for (let round = 0; round < 3; round += 1) {
      cell.run('db');
      cell.step();
    }
    assert.deepEqual([jobs(), cell.blockedOf('db').length], [['h1 v2 run'], 0], 'and it begins where its data is');
    cell.settings.delete('h1');
    cell.run('db', 'host_changed');
    assert.deepEqual(jobs(), ['h1 v2 run'], 'a tag alone stops nothing that has data');
    cell.report(cell.jobsOf('db')[0]?.id ?? '', 'failed');
    cell.now += 60_000;
    cell.run('db', 'job_ended');
    assert.deepEqual([jobs(), cell.blockedOf('db')[0]?.reason], [['h1 v2 run'], reason], 'and nothing begins empty');
    assert.equal(cell.jobsOf('db')[0]?.status?.isFinal, true);
    cell.settings.set('h1', { cordoned: false, tags: { disk: 'ssd' } });
    cell.run('db', 'host_changed');
    cell.step();
    assert.deepEqual([jobs(), cell.blockedOf('db').length], [['h1 v2 run'], 0]);
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
    assert.deepEqual(cell.hostsOf('db'), ['h2']);
  });
  it('that can be left, but for no other host, runs on, and goes to the first that matches', () => {
    const cell = cellWith(hostOf('h1'), hostOf('h2'));
    const volumes = [{ name: 'logs', path: '/d', isReplaceable: true }];
    const logs = (version: string, more = {}) => workloadOf({ id: 'db', version, template: { volumes }, ...more });
    const jobs = () => slotsOf(cell);
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
      assert.equal(cell.blockedOf('db')[0]?.reason, `0 placed, 1 waiting: ${why}`);
    }
    cell.settings.set(other, { cordoned: true, tags: { disk: 'ssd' } });
    settle();
    assert.deepEqual(jobs(), [`${own} v1 run`]);
    cell.settings.set(other, { cordoned: false, tags: { disk: 'ssd' } });
    settle();
    assert.deepEqual([jobs(), cell.blockedOf('db').length], [[`${other} v2 run`], 0]);
  });
  it('that can be left runs on where all hosts that match have a job of the workload, which may have one on each', () => {
    const cell = cellWith(hostOf('h1'), hostOf('h2'), hostOf('h3'));
    const volumes = [{ name: 'logs', path: '/d', isReplaceable: true }];
    const constraints = [{ attribute: 'disk', operator: 'not_in' as const, values: ['slow'] }, { ...eachOnItsOwn }];
    cell.put(workloadOf({ id: 'db', count: 3, template: { volumes }, constraints }));
    cell.run('db');
    cell.step();
    cell.settings.set('h2', { cordoned: false, tags: { disk: 'slow' } });
    for (let round = 0; round < 3; round += 1) {
      cell.run('db', 'host_changed');
      cell.step();
    }
    assert.deepEqual(slotsOf(cell).sort(), ['h1 v1 run', 'h2 v1 run', 'h3 v1 run']);
    const why = 'it runs on h2, which does not match (disk is slow), and no host that does has room';
    assert.equal(cell.blockedOf('db')[0]?.reason, `2 placed, 1 waiting: ${why}`);
    cell.put(hostOf('h4'));
    for (let round = 0; round < 3; round += 1) {
      cell.run('db', 'capacity');
      cell.step();
    }
    assert.deepEqual(cell.hostsOf('db'), ['h1', 'h3', 'h4']);
  });
  it('has its next version wait while its host drains: nothing is stopped for what cannot begin', () => {
    const cell = cellWith(hostOf('h1'), db('v1'));
    const jobs = () => slotsOf(cell);
    cell.run('db');
    cell.step();
    const deadlineAt = cell.now + 60_000;
    cell.settings.set('h1', { cordoned: true, tags: {}, drain: { startedAt: cell.now, deadlineAt, maxParallel: 1 } });
    cell.put(hostOf('h2'), db('v2'));
    cell.run('db');
    assert.deepEqual(jobs(), ['h1 v1 run']);
    assert.equal(cell.blockedOf('db')[0]?.reason, '0 placed, 1 waiting: volume data is on h1, which is draining');
    cell.now = deadlineAt;
    cell.run('db', 'retry');
    assert.deepEqual(jobs(), ['h1 v1 stop'], 'its deadline holds');
    cell.step();
    cell.settings.delete('h1');
    cell.run('db', 'drain');
    assert.deepEqual(jobs(), ['h1 v2 run']);
  });
  it('that has grown too large keeps its place, and says what is missing', () => {
    const db = (version: string, megabytes: number) =>
      workloadOf({
        version,
        template: {
          volumes: [{ name: 'data', path: '/d' }],
          resources: { memoryBytes: megabytes * mebibyte, cpuMillis: 0 },
        },
      });
    const cell = cellWith(
      hostOf('h1'),
      db('v1', 300),
      workloadOf({ id: 'api', template: { resources: { memoryBytes: 600 * mebibyte, cpuMillis: 100 } } }),
    );
    for (const id of ['web', 'api']) cell.run(id);
    cell.step();
    cell.put(hostOf('h2'), db('v2', 500)).run('web');
    cell.step();
    const plan = cell.run('web', 'job_ended');
    assert.equal(plan.hosts.size, 0);
    assert.equal(cell.blockedOf('web')[0]?.reason, '0 placed, 1 waiting: memory (1 host full)');
    assert.deepEqual(cell.hostsOf('web'), ['h1'], 'its data is still known to be there');
    cell.put(db('v3', 300)).run('web');
    assert.deepEqual(
      cell.jobsOf('web').map(({ version, hostId }) => [version, hostId]),
      [['v3', 'h1']],
    );
  });
});
