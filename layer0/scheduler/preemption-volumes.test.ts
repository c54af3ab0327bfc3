/** Pre-emption where volumes bind jobs to their hosts: of those that would have to make room, and of the one that needs it. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Workload } from './cell.ts';
import { fullCell, sized, stopped } from './preemption-fixture.ts';
import { hostOf, mebibyte, workloadOf } from './testing.ts';
import { ToyCell } from './toy-cell.ts';

const withVolume = (id: string, megabytes: number, more: Partial<Workload> = {}): Workload => {
  const resources = { memoryBytes: megabytes * mebibyte, cpuMillis: 0 };
  return { ...workloadOf({ id, template: { resources, volumes: [{ name: 'data', path: '/data' }] } }), ...more };
};
const urgent = (megabytes: number) => sized('urgent', megabytes, { priority: 90, mayPreempt: true });

describe('pre-emption of jobs with volumes', () => {
  it('never happens: they could go nowhere else, and their room would not come', () => {
    const cell = fullCell(withVolume('db', 900, { priority: 50 }));
    cell.put(urgent(500)).run('urgent');
    assert.deepEqual(stopped(cell), []);
    assert.match(cell.blockedOf('urgent')[0]?.reason ?? '', /^0 placed, 1 waiting: memory \(1 host full\)/);
    const both = fullCell(withVolume('db', 500, { priority: 10 }), sized('app', 450, { priority: 50 }));
    both.put(urgent(500)).run('urgent');
    assert.deepEqual(stopped(both), ['app'], 'though the other is lower');
  });
  it('does not wait for the room of one that is to stop: the next one of its slot takes that', () => {
    const cell = fullCell(withVolume('db', 500, { priority: 50 }), sized('app', 450, { priority: 50 }));
    cell.put(withVolume('db', 500, { priority: 50, version: 'v2' })).run('db');
    assert.deepEqual(stopped(cell), ['db']);
    cell.put(urgent(500)).run('urgent');
    assert.deepEqual(stopped(cell), ['db', 'app']);
  });
  it('waits for the room of one that goes for good, and stops nobody', () => {
    for (const isRemoved of [true, false]) {
      const cell = fullCell(withVolume('db', 500, { priority: 50 }), sized('app', 450, { priority: 50 }));
      if (isRemoved) cell.workloads.delete('db');
      else cell.put(withVolume('db', 500, { priority: 50, count: 0 }));
      cell.run('db');
      assert.deepEqual(stopped(cell), ['db']);
      cell.put(urgent(500)).run('urgent');
      assert.deepEqual(stopped(cell), ['db']);
      cell.step();
      cell.run('db', 'job_ended');
      cell.run('urgent');
      assert.deepEqual(
        cell.jobsOf('urgent').map(({ hostId }) => hostId),
        ['h1'],
      );
    }
  });
});

describe('pre-emption for a job that goes back to its volume', () => {
  const blob = (megabytes: number, more: Partial<Workload> = {}) =>
    withVolume('blob', megabytes, { priority: 80, mayPreempt: true, ...more });
  const states = (cell: ToyCell) =>
    [...cell.jobs.values()].map(
      ({ workloadId, version, desired, status }) => `${workloadId} ${version} ${desired} ${status?.state ?? 'new'}`,
    );
  /** Its job ended, and the next one is larger than what is free with the room of that. */
  function grown(cell: ToyCell, megabytes: number, more: Partial<Workload> = {}): ToyCell {
    cell.put(blob(megabytes, { version: 'v2', ...more })).run('blob');
    cell.step();
    cell.run('blob', 'job_ended');
    return cell;
  }

  it('counts the room of the job it goes after, and takes it with that of those that ended', () => {
    const cell = grown(fullCell(blob(500), sized('app', 400, { priority: 50 })), 800);
    assert.deepEqual(states(cell), ['blob v1 stop done', 'app v1 stop running']);
    cell.step();
    cell.run('app', 'job_ended');
    cell.run('blob', 'capacity');
    assert.deepEqual(states(cell), ['blob v2 run new']);
    cell.run('app', 'retry');
    assert.deepEqual([states(cell), cell.blockedOf('blob')], [['blob v2 run new'], []]);
  });
  it('whether that one was told to stop or ended by itself', () => {
    const cell = fullCell(blob(500), sized('app', 400, { priority: 50 }));
    for (const { id } of cell.jobsOf('blob')) cell.report(id, 'failed');
    cell.put(blob(800, { version: 'v2' })).run('blob');
    assert.deepEqual(stopped(cell), ['app']);
    cell.step();
    cell.run('app', 'job_ended');
    cell.run('blob', 'capacity');
    assert.deepEqual(states(cell), ['blob v2 run new']);
  });
  it('on a host that is cordoned, and where no two may be on one host', () => {
    const distinct: Partial<Workload> = { constraints: [{ attribute: 'host', operator: 'distinct', values: [] }] };
    const full = () => fullCell(blob(500, distinct), sized('app', 400, { priority: 50 }));
    for (const cell of [full(), full().put(hostOf('h1', { cordoned: true }))]) {
      grown(cell, 800, distinct).step();
      cell.run('blob', 'capacity');
      assert.deepEqual(states(cell), ['blob v2 run new']);
    }
  });
  it('stops nobody where all of it is not enough, and keeps the place of the data', () => {
    const high = sized('high', 300, { priority: 75 });
    const cell = grown(fullCell(blob(400), high, sized('app', 250, { priority: 50 })), 800);
    assert.deepEqual(states(cell), ['blob v1 stop done', 'high v1 run running', 'app v1 run running']);
    assert.match(cell.blockedOf('blob')[0]?.reason ?? '', /^0 placed, 1 waiting: memory \(1 host full\)/);
  });
  it('of several slots on one host for each by itself: what one goes after is no room for another', () => {
    const cell = fullCell(blob(300, { count: 2 }), sized('app', 350, { priority: 50 }));
    for (const { id } of cell.jobsOf('blob')) cell.report(id, 'failed');
    cell.put(blob(500, { version: 'v2', count: 2 })).run('blob');
    assert.deepEqual(states(cell), ['blob v1 run failed', 'blob v1 run failed', 'app v1 stop running']);
    cell.step();
    cell.run('blob', 'capacity');
    assert.deepEqual(states(cell), ['blob v2 run new', 'blob v2 run new']);
  });
});
