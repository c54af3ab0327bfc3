import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Workload } from './cell.ts';
import { fullCell, sized, stopped } from './preemption-fixture.ts';
import { hostOf } from './testing.ts';
import { ToyCell } from './toy-cell.ts';

const urgent = (megabytes: number, more: Partial<Workload> = {}) =>
  sized('urgent', megabytes, { priority: 80, mayPreempt: true, ...more });

describe('pre-emption', () => {
  it('stops the lowest, asks for a look at them, and takes their room when they ended', () => {
    const cell = fullCell(
      sized('low', 300, { priority: 10 }),
      sized('mid', 300, { priority: 40 }),
      sized('high', 300, { priority: 70 }),
    );
    const plan = cell.put(urgent(300)).run('urgent');
    assert.deepEqual(stopped(cell), ['low']);
    const asked = plan.outcomes[0]?.created.filter(({ cause }) => cause === 'preemption') ?? [];
    assert.deepEqual(
      asked.map(({ workloadId, priority }) => [workloadId, priority]),
      [['low', 10]],
    );
    cell.run('urgent', 'capacity');
    assert.deepEqual(stopped(cell), ['low'], 'nobody else is stopped while room is on its way');
    cell.step();
    cell.run('urgent', 'capacity');
    assert.deepEqual(cell.jobsOf('urgent').length, 1);
    cell.run('low', 'preemption');
    assert.equal(cell.jobsOf('low').length, 0);
    assert.match(cell.evaluationsOf('low').at(-1)?.value.reason ?? '', /^0 placed, 1 waiting: memory/);
  });
  it('stops the fewest that make enough room, the youngest of a priority first', () => {
    const cell = fullCell(sized('web', 200, { count: 2, priority: 20 }), sized('big', 500, { priority: 20 }));
    cell.put(urgent(500)).run('urgent');
    assert.deepEqual(stopped(cell), ['big']);
    const young = fullCell(sized('first', 450, { priority: 20 }), sized('second', 450, { priority: 20 }));
    young.put(urgent(400)).run('urgent');
    assert.deepEqual(stopped(young), ['second']);
  });
  it('prefers the host where it costs least', () => {
    const cell = new ToyCell().put(hostOf('h1'), hostOf('h2'));
    cell.put(sized('low', 900, { priority: 10, constraints: [{ attribute: 'host', operator: 'in', values: ['h2'] }] }));
    cell.put(sized('mid', 900, { priority: 40, constraints: [{ attribute: 'host', operator: 'in', values: ['h1'] }] }));
    for (const id of ['low', 'mid']) cell.run(id);
    cell.put(urgent(500)).run('urgent');
    assert.deepEqual(stopped(cell), ['low']);
  });
  it('never for what may not, is not urgent enough, or would take from those within ten of it', () => {
    const table: [Partial<Workload>, number][] = [
      [{ mayPreempt: false }, 10],
      [{ priority: 79 }, 10],
      [{}, 71],
    ];
    for (const [more, priority] of table) {
      const cell = fullCell(sized('low', 900, { priority }));
      cell.put(urgent(500, more)).run('urgent');
      assert.deepEqual(stopped(cell), []);
      assert.equal(cell.jobsOf('urgent').length, 0);
    }
    const cell = fullCell(sized('low', 900, { priority: 70 }));
    cell.put(urgent(500)).run('urgent');
    assert.deepEqual(stopped(cell), ['low']);
  });
  it('never for what has room, and never where stopping all of them is not enough', () => {
    const cell = fullCell(sized('low', 600, { priority: 10 }));
    cell.put(urgent(300)).run('urgent');
    assert.deepEqual([stopped(cell), cell.jobsOf('urgent').length], [[], 1]);
    const full = fullCell(sized('low', 400, { priority: 10 }), sized('high', 500, { priority: 75 }));
    full.put(urgent(600)).run('urgent');
    assert.deepEqual(stopped(full), []);
  });
  it('keeps the room it made from being taken by others first, for a moment and where it is enough', () => {
    const cell = fullCell(sized('low', 450, { count: 2, priority: 10 }));
    cell.put(urgent(500)).run('urgent');
    cell.step();
    cell.run('low', 'job_ended');
    assert.equal(cell.jobsOf('low').length, 2, 'the one that ended still holds its room');
    const again = cell.evaluationsOf('low').filter(({ value }) => value.waitUntil !== undefined);
    assert.deepEqual(
      again.map(({ value }) => [value.cause, value.waitUntil]),
      [['retry', cell.now + 5_000]],
    );
    cell.now += 5_000;
    cell.run('low', 'retry');
    assert.deepEqual(
      cell.jobsOf('low').map(({ desired, status }) => [desired, status?.state]),
      [
        ['run', undefined],
        ['run', 'running'],
      ],
      'nobody took it',
    );
    const large = fullCell(sized('low', 450, { count: 2, priority: 10 }));
    large.put(urgent(1_001)).run('urgent');
    large.put(sized('low', 450, { count: 1, priority: 10 })).run('low');
    large.step();
    large.run('low', 'job_ended');
    assert.equal(large.jobsOf('low').length, 1, 'what can never be enough is not kept');
  });
  it('counts down a run with the plan that takes its room: it does not run once more', () => {
    const cell = fullCell(sized('run', 600, { kind: 'ephemeral', priority: 50 }));
    cell.put(urgent(500)).run('urgent');
    cell.step();
    cell.run('run', 'job_ended');
    const left = () => [cell.jobsOf('run').length, cell.workload('run')?.value.count];
    assert.deepEqual(left(), [1, 1], 'its room is kept for the other');
    cell.run('urgent', 'capacity');
    assert.deepEqual([...left(), cell.jobsOf('urgent').length], [0, 0, 1]);
    cell.put(hostOf('h2'));
    for (const cause of ['preemption', 'retry'] as const) cell.run('run', cause);
    assert.deepEqual(left(), [0, 0]);
  });
  it('lets the other runs of a workload wait, and all of them run once', () => {
    const cell = fullCell(sized('run', 450, { kind: 'ephemeral', count: 3, priority: 50 }));
    cell.put(urgent(500)).run('urgent');
    cell.step();
    cell.run('run', 'job_ended');
    const left = () => [cell.jobsOf('run').length, cell.workload('run')?.value.count];
    assert.deepEqual(left(), [2, 3], 'the third did not take the room');
    cell.run('urgent', 'capacity');
    assert.deepEqual([...left(), cell.jobsOf('urgent').length], [1, 2, 1]);
    cell.put(hostOf('h2'));
    cell.run('run', 'capacity');
    assert.deepEqual(left(), [2, 2]);
    cell.step((job) => (job.workloadId === 'run' ? 'done' : 'running'));
    cell.run('run', 'job_ended');
    assert.deepEqual(left(), [0, 0]);
  });
  it('lets go of a run by its own plan where nobody has taken its room in time, and the others have it', () => {
    const cell = fullCell(sized('run', 450, { kind: 'ephemeral', count: 3, priority: 50 }));
    cell.put(urgent(500)).run('urgent');
    cell.step();
    cell.now += 5_000;
    cell.run('run', 'retry');
    assert.deepEqual([cell.jobsOf('run').length, cell.workload('run')?.value.count], [2, 2]);
    cell.step();
    assert.ok(cell.jobsOf('run').every(({ status }) => status?.state === 'running'));
  });
  it('counts no run twice where there are more than the workload asks for by now', () => {
    const run = sized('run', 300, { kind: 'ephemeral', count: 3, priority: 50 });
    const cell = fullCell(run);
    cell.put(urgent(200)).run('urgent');
    cell.put({ ...run, count: 2 });
    cell.step();
    cell.run('urgent', 'capacity');
    assert.deepEqual([cell.jobsOf('run').length, cell.workload('run')?.value.count], [2, 2]);
  });
  it('makes room for one after the other: what one has taken does not come once more', () => {
    const cell = fullCell(sized('low', 450, { count: 2, priority: 10 }));
    cell.put(urgent(500, { count: 2 })).run('urgent');
    assert.deepEqual(stopped(cell), ['low']);
    cell.step();
    cell.run('urgent', 'capacity');
    assert.deepEqual([cell.jobsOf('urgent').length, stopped(cell)], [1, ['low']]);
    cell.step();
    cell.run('urgent', 'capacity');
    assert.deepEqual([cell.jobsOf('urgent').length, cell.jobsOf('low').length], [2, 0]);
  });
  it('gives the room of one host to one job only where no two may be on a host', () => {
    const cell = fullCell(sized('low', 900, { priority: 10 }));
    const distinct: Workload['constraints'] = [{ attribute: 'host', operator: 'distinct', values: [] }];
    cell.put(urgent(300, { count: 2, constraints: distinct })).run('urgent');
    assert.deepEqual(stopped(cell), ['low']);
    cell.step();
    cell.run('urgent', 'capacity');
    assert.equal(cell.jobsOf('urgent').length, 1);
  });
  it('makes room for an omni job on its own host', () => {
    const cell = fullCell(sized('low', 900, { priority: 10 }));
    cell.put(urgent(300, { kind: 'omni' })).run('urgent');
    assert.deepEqual(stopped(cell), ['low']);
    cell.step();
    cell.run('urgent', 'capacity');
    assert.deepEqual(
      cell.jobsOf('urgent').map(({ hostId }) => hostId),
      ['h1'],
    );
  });
});
