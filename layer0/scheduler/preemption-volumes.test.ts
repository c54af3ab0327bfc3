/** Pre-emption where volumes bind jobs to their hosts: of those that would have to make room, and of the one that needs it. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Workload } from './cell.ts';
import { hostOf, mebibyte, workloadOf } from './testing.ts';
import { ToyCell } from './toy-cell.ts';

const sized = (id: string, megabytes: number, more: Partial<Workload> = {}): Workload => ({
  ...workloadOf({ id, template: { resources: { memoryBytes: megabytes * mebibyte, cpuMillis: 0 } } }),
  ...more,
});
const withVolume = (id: string, megabytes: number, more: Partial<Workload> = {}): Workload => {
  const resources = { memoryBytes: megabytes * mebibyte, cpuMillis: 0 };
  return { ...workloadOf({ id, template: { resources, volumes: [{ name: 'data', path: '/data' }] } }), ...more };
};
const urgent = (megabytes: number) => sized('urgent', megabytes, { priority: 90, mayPreempt: true });

function fullCell(...workloads: Workload[]): ToyCell {
  const cell = new ToyCell().put(hostOf('h1'), ...workloads);
  for (const { id } of workloads) cell.run(id);
  cell.step();
  return cell;
}
const stopped = (cell: ToyCell) =>
  [...cell.jobs.values()].filter(({ desired }) => desired === 'stop').map(({ workloadId }) => workloadId);

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
});
