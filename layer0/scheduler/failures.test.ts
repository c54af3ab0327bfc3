import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { cellKeys } from './cell.ts';
import type { WorkloadInput } from './cell.ts';
import { evaluationSchema } from './evaluation.ts';
import type { Evaluation } from './evaluation.ts';
import { evaluationPut, makeEvaluation } from './evaluations.ts';
import { kind, schedule } from './examples/cheapest-host-first.ts';
import { Failures } from './failures.ts';
import { isOwnWorkload } from './ownership.ts';
import type { Outcome, Plan } from './plan.ts';
import { builtInSchedulers } from './schedulers/scheduler.ts';
import { Simulation } from './simulator/simulation.ts';
import { hostOf, statusOf, workloadInputOf } from './testing.ts';

const minuteMs = 60_000;
const recordsOf = ({ database }: Simulation): Evaluation[] =>
  database.list(cellKeys.evaluations).entries.map(({ value }) => evaluationSchema.parse(JSON.parse(value)));
const failed = (world: Simulation) => recordsOf(world).filter(({ state }) => state === 'failed');

/** Its one job has failed, which is once more than it may. */
function worldWithFailure(schedulers: number): Simulation {
  const hosts = ['h0', 'h1', 'h2'].map((id) => hostOf(id));
  const world = new Simulation({ seed: 1, hosts, schedulers, isChecked: true });
  const reschedule = { attempts: 0, intervalMs: minuteMs, delayMs: 1_000, maxDelayMs: 1_000 };
  world.change(workloadInputOf({ reschedule }));
  world.runUntil(() => world.cell.jobCount === 1, 1_000);
  const [job] = world.cell.jobsOf('web');
  assert.ok(job !== undefined);
  const status = statusOf(job, 'failed', { isFinal: true, endedAt: world.now });
  world.write([
    { put: cellKeys.jobStatus(job.hostId, job.id), value: JSON.stringify(status) },
    evaluationPut('web', 'job_ended', world.context),
  ]);
  return world;
}

describe('a workload that has failed for good', () => {
  it('says so once, however often it is looked at, and whoever looks', () => {
    for (const schedulers of [1, 3]) {
      const world = worldWithFailure(schedulers);
      world.run(20 * minuteMs);
      assert.deepEqual(
        failed(world).map(({ cause, reason }) => [cause, reason]),
        [['job_ended', 'failed 1 times within 1 min: not replaced any more']],
      );
    }
  });
  it('says so again once that is not on record any more', () => {
    const world = worldWithFailure(1);
    world.run(minuteMs);
    const [first] = failed(world);
    world.write([{ delete: cellKeys.evaluation(first?.id ?? '') }]);
    world.run(10 * minuteMs);
    const [second, ...others] = failed(world);
    assert.deepEqual([second?.cause, second?.reason, others], ['repair', first?.reason, []]);
    assert.notEqual(second?.id, first?.id);
  });
  it('says so again after it went well in between', () => {
    const world = worldWithFailure(1);
    world.run(minuteMs);
    const done = { ...makeEvaluation('web', 'workload', world.context), state: 'complete' as const };
    world.write([{ put: cellKeys.evaluation(done.id), value: JSON.stringify(done) }]);
    world.run(10 * minuteMs);
    assert.equal(failed(world).length, 2);
  });
});

describe('what is known of failures', () => {
  const failure = (reason: string): Evaluation => ({
    ...makeEvaluation('web', 'repair', { now: 0, newId: () => reason }),
    state: 'failed',
    reason,
  });
  const planOf = (end: Evaluation, more: Partial<Plan> = {}, other: Partial<Outcome> = {}): Plan => {
    const outcomes = [{ evaluation: end, end, created: [], superseded: [], ...other }];
    return { id: 'p', hosts: new Map(), outcomes, ...more };
  };
  it('marks what says the same and does nothing else', () => {
    const failures = new Failures();
    failures.learn('a', failure('a'));
    const isMarked = (plan: Plan) => failures.marked(plan).outcomes[0]?.isKnown === true;
    assert.equal(isMarked(planOf(failure('a'))), true);
    assert.equal(isMarked(planOf(failure('b'))), false);
    assert.equal(isMarked(planOf({ ...failure('a'), state: 'complete' })), false);
    assert.equal(isMarked(planOf(failure('a'), {}, { created: [failure('c')] })), false);
    assert.equal(isMarked(planOf(failure('a'), {}, { superseded: [failure('c')] })), false);
    assert.equal(
      isMarked(planOf(failure('a'), { hosts: new Map([['h1', { add: [], stop: [], release: [] }]]) })),
      false,
    );
    failures.learn('other', undefined);
    assert.equal(isMarked(planOf(failure('a'))), true);
    failures.learn('a', undefined);
    assert.equal(isMarked(planOf(failure('a'))), false);
  });
});

describe('a workload of a kind that the scheduler it falls to does not know', () => {
  const own = new Map([...builtInSchedulers, [kind, { schedule }]]);
  const peers = ['h0', 'h1', 'h2'];
  /** Which of them falls to h0. */
  const id = Array.from({ length: 50 }, (_, n) => `night${n}`).find((one) => isOwnWorkload(one, 'h0', peers)) ?? '';
  const worldOf = (knowing: readonly string[]) =>
    new Simulation({
      seed: 1,
      hosts: peers.map((id) => hostOf(id)),
      schedulers: 3,
      hasAgents: true,
      isChecked: true,
      coreOf: (hostId) => (knowing.includes(hostId) ? { schedulers: own } : {}),
    });
  const night = (more: Partial<WorkloadInput> = {}) => workloadInputOf({ id, kind, count: 4, ...more });

  it('is planned by one that does, and by it kept as it is to be', () => {
    const world = worldOf(['h1', 'h2']);
    world.change(night());
    world.runUntil(() => world.cell.jobCount === 4, 8_000);
    // Nobody is told of this one.
    const [job] = world.cell.jobsOf(id);
    assert.ok(job !== undefined);
    world.loseHost(job.hostId);
    world.run(2 * minuteMs);
    assert.equal(world.cell.jobsOf(id).filter(({ hostId }) => hostId !== job.hostId).length, 4);
    assert.deepEqual(failed(world), []);
    assert.deepEqual(world.violations, []);
  });
  it('waits for room in peace', () => {
    const world = worldOf(['h2']);
    world.change(night({ count: 40 }));
    world.run(10 * minuteMs);
    assert.equal(world.cell.jobCount, 30);
    assert.deepEqual(
      recordsOf(world).flatMap(({ state, reason }) => (state === 'complete' ? [] : [[state, reason]])),
      [['blocked', '30 placed, 10 waiting: memory (3 hosts full)']],
    );
    world.returnHost(hostOf('h3'));
    world.runUntil(() => world.cell.jobCount === 40, 20_000);
  });
  it('is said to fail once nobody has taken it up, and again when that is not on record any more', () => {
    const world = worldOf([]);
    world.change(night());
    world.run(9_000);
    assert.deepEqual(
      recordsOf(world).map(({ state }) => state),
      ['pending'],
    );
    world.run(10 * minuteMs);
    const [first, ...others] = failed(world);
    assert.match(
      first?.reason ?? '',
      /^no scheduler plans for the kind "cheapest", there are: .*; no host took it up$/,
    );
    assert.deepEqual(others, []);
    world.write([{ delete: cellKeys.evaluation(first?.id ?? '') }]);
    world.run(10 * minuteMs);
    assert.deepEqual(
      failed(world).map(({ cause }) => cause),
      ['repair'],
    );
  });
});
