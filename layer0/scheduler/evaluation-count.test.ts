import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Broker } from './broker.ts';
import type { Evaluation } from './evaluation.ts';
import { giveUp } from './evaluations.ts';
import { hostOf, workloadOf } from './testing.ts';
import { ToyCell } from './toy-cell.ts';
import { Triggers } from './triggers.ts';

let ids = 0;
const newId = () => `i${(ids += 1)}`;

/** Everything pending is planned and carried out, as a scheduler would; evaluations of triggers are stored as they come. */
function runAll(cell: ToyCell, broker: Broker): void {
  for (const one of cell.records.values()) if (one.state === 'pending') broker.enqueue(one, cell.now);
  for (let [delivery] = broker.dequeue(cell.now, 1); delivery !== undefined; [delivery] = broker.dequeue(cell.now, 1)) {
    const { evaluation, token } = delivery;
    const plan = cell.planFor(evaluation);
    cell.apply(plan);
    broker.ack(evaluation.id, token, cell.now);
  }
}

describe('the number of evaluations', () => {
  const brokerOf = () => new Broker({ isOwn: () => true, newToken: newId });
  const store = (cell: ToyCell, evaluation: Evaluation) => cell.records.set(evaluation.id, evaluation);

  it('is 4 for an update of 3 jobs, one at a time: the change, and one for each that became healthy', () => {
    const cell = new ToyCell().put(hostOf('h1'), hostOf('h2'), workloadOf({ count: 3, maxParallel: 1 }));
    cell.run('web');
    cell.step();
    cell.records.clear();
    const broker = brokerOf();
    cell.put(workloadOf({ count: 3, maxParallel: 1, version: 'v2' }));
    store(cell, cell.evaluation('web'));
    runAll(cell, broker);
    const triggers = new Triggers(cell);
    for (let round = 0; round < 10; round += 1) {
      const before = new Map(cell.jobs);
      cell.step();
      for (const [jobId, { status, hostId }] of cell.jobs) {
        const change = {
          kind: 'status' as const,
          hostId,
          jobId,
          workloadId: 'web',
          before: before.get(jobId)?.status,
          after: status,
        };
        if (status?.isFinal === true || change.before?.state === status?.state) continue;
        for (const { workloadId, cause } of triggers.of(change)) store(cell, cell.evaluation(workloadId, cause));
      }
      runAll(cell, broker);
    }
    assert.deepEqual(
      cell
        .jobsOf('web')
        .filter(({ desired }) => desired === 'run')
        .map(({ version }) => version),
      ['v2', 'v2', 'v2'],
    );
    const all = [...cell.records.values()];
    assert.deepEqual(
      all.map(({ cause, state }) => `${cause} ${state}`),
      ['workload complete', 'health complete', 'health complete', 'health complete'],
    );
  });

  it('is 6 when a host with an omni and two service workloads is lost: one fits nowhere, one is refused and then fits nowhere', () => {
    const half = { template: { resources: { memoryBytes: 500 * 2 ** 20, cpuMillis: 0 } } };
    const cell = new ToyCell().put(
      hostOf('h1'),
      workloadOf({ id: 'api', ...half }),
      workloadOf({ count: 1, ...half, template: { resources: { memoryBytes: 400 * 2 ** 20, cpuMillis: 0 } } }),
      workloadOf({ id: 'log', kind: 'omni', template: { resources: { memoryBytes: 2 ** 20, cpuMillis: 0 } } }),
    );
    for (const id of ['api', 'web', 'log']) cell.run(id);
    cell.step();
    cell.put(
      hostOf('h2'),
      workloadOf({ id: 'other', template: { resources: { memoryBytes: 590 * 2 ** 20, cpuMillis: 0 } } }),
      workloadOf({ id: 'thief', template: { resources: { memoryBytes: 405 * 2 ** 20, cpuMillis: 0 } } }),
    );
    cell.run('other');
    cell.records.clear();
    cell.lose('h1');
    for (const { workloadId, cause } of new Triggers(cell).ofLoss('h1'))
      store(cell, cell.evaluation(workloadId, cause));
    assert.equal(cell.records.size, 3);
    const find = (workloadId: string) => [...cell.records.values()].find((one) => one.workloadId === workloadId);
    for (const id of ['log', 'api']) {
      const evaluation = find(id);
      assert.ok(evaluation !== undefined);
      cell.apply(cell.planFor(evaluation));
    }
    const web = find('web');
    assert.ok(web !== undefined);
    assert.equal(cell.planFor(web).hosts.has('h2'), true, 'there is room');
    cell.apply(cell.plan('thief'));
    cell.records.delete([...cell.records.keys()].at(-1) ?? '');
    const { end, followUp } = giveUp(web, 'the cell changes too fast', { ...cell.context(), hasWorkload: true });
    assert.ok(followUp !== undefined);
    for (const one of [end, followUp]) store(cell, one);
    cell.apply(cell.planFor(followUp));
    const all = [...cell.records.values()].map(({ workloadId, cause, state }) => `${workloadId} ${cause} ${state}`);
    assert.deepEqual(all.sort(), [
      'api capacity blocked',
      'api host_lost complete',
      'log host_lost complete',
      'web capacity blocked',
      'web follow_up complete',
      'web host_lost failed',
    ]);
  });
});
