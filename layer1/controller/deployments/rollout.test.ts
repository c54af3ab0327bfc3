import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { patienceMs } from './expected-jobs.ts';
import { nextStep, targetCounts } from './rollout.ts';
import type { RolloutView, TypeState } from './rollout.ts';
import { batchOf } from './strategies.ts';
import { rolloutSchema, strategies, type Rollout } from './rollout-settings.ts';

const web = (change: Partial<TypeState> = {}): TypeState => ({
  type: 'web',
  target: 2,
  original: 2,
  newWanted: 2,
  oldWanted: 2,
  newUp: 0,
  newExpected: 2,
  oldUp: 2,
  oldPresent: 2,
  isInPlace: false,
  isSwitched: true,
  ...change,
});
const plan = (change: Partial<Rollout> = {}): Rollout => ({ ...rolloutSchema.parse({}), ...change });
const at = (types: TypeState[], change: Partial<RolloutView> = {}) =>
  nextStep({
    types,
    plan: plan(),
    phase: 'running',
    isPromoted: false,
    nowMs: 0,
    progressMs: 0,
    timeoutMs: 1_000,
    ...change,
  });
const errorOf = (step: ReturnType<typeof nextStep>) => ('error' in step ? step.error : '');

test('the old release stays until everything new is up', () => {
  assert.deepEqual(at([web({ newUp: 1 })]), { do: 'wait', untilMs: 1_000 });
  assert.deepEqual(at([web({ newUp: 2 })]), { do: 'switch' });
  assert.deepEqual(at([web({ newUp: 2 }), web({ type: 'worker', newUp: 0 })]), { do: 'wait', untilMs: 1_000 });
});

test('who says that it takes longer is waited for, each where it is what is waited for', () => {
  const patience = { startMs: 2_000, stopMs: 3_000, backMs: 4_000 };
  assert.deepEqual(at([web({ newUp: 1 })], { patience }), { do: 'wait', untilMs: 2_000 });
  assert.match(errorOf(at([web({ newUp: 1 })], { patience, nowMs: 2_000 })), /^nothing more came up within 2 s/);
  const ending = [web({ newUp: 1, newWanted: 1, newExpected: 1, oldWanted: 1, oldPresent: 2 })];
  const inTurn = { patience, plan: plan({ strategy: 'one-by-one' }) };
  assert.deepEqual(at(ending, inTurn), { do: 'wait', untilMs: 3_000 });
  assert.deepEqual(at([web({ oldUp: 1 })], { patience, phase: 'rolling_back' }), { do: 'wait', untilMs: 4_000 });
  const finishing = at([web({ newUp: 2, oldPresent: 1 })], { patience, phase: 'finishing' });
  assert.deepEqual(finishing, { do: 'wait', untilMs: 600_000 }, 'the next deployment waits for no longer');
});

test('it is complete once the old jobs have ended, or cannot be ended', () => {
  const finishing = (oldPresent: number, nowMs = 0) =>
    at([web({ newUp: 2, oldPresent })], { phase: 'finishing', nowMs });
  assert.deepEqual(finishing(1), { do: 'wait', untilMs: 600_000 });
  assert.deepEqual(finishing(0), { do: 'complete' });
  assert.deepEqual(finishing(1, 600_000), { do: 'complete' });
  const crashed = web({ newUp: 1, oldPresent: 0, failed: { id: 'a', type: 'web' } });
  const finished = at([crashed], { phase: 'finishing' });
  const warning = '1 of 2 web jobs are up';
  assert.deepEqual(finished, { do: 'complete', warning }, 'a live release is not rolled back');
  const scaled = web({ newWanted: 9, newExpected: 9, newUp: 2, oldPresent: 0 });
  assert.deepEqual(at([scaled], { phase: 'finishing' }), { do: 'complete' }, 'what was added since is not its own');
});

test('in batches the first one begins beside what the deployment before left, the next once that has ended', () => {
  const types = (left: number, newWanted: number) => [
    web({
      target: 8,
      original: 8,
      newWanted,
      newUp: newWanted,
      newExpected: newWanted,
      oldWanted: 8,
      oldPresent: 8 + left,
    }),
    web({ type: 'gone', target: 0, original: 0, newWanted: 0, newExpected: 0, oldWanted: 0, oldPresent: left }),
  ];
  const first = at(types(4, 0));
  assert.deepEqual('newCounts' in first && first.newCounts['web'], 4);
  assert.equal(at(types(4, 4)).do, 'wait');
  assert.equal(at(types(0, 4)).do, 'scale');
});

test('it begins once what an earlier deployment of the same release left is told to stop, or after a while without that', () => {
  const fresh = web({ newWanted: 0, newUp: 0, newExpected: 0 });
  const left = { ...fresh, unstopped: 1 };
  assert.equal(at([fresh]).do, 'scale');
  const waiting = at([left]);
  assert.ok(waiting.do === 'wait' && waiting.untilMs !== undefined);
  assert.equal(at([left], { nowMs: waiting.untilMs }).do, 'scale');
});

test('it says which jobs are to follow, and looks again when a host that is away is not waited for any more', () => {
  const followers = { hosts: ['h2', 'h3'], of: 3, why: 'their data is there' } as const;
  const db = web({ type: 'db', newExpected: 1, newUp: 1, oldWanted: 0, oldPresent: 0, followers });
  assert.deepEqual(at([db]), {
    do: 'complete',
    warning: '2 of 3 db jobs are to follow: their data is on h2, h3, which are away',
  });
  assert.deepEqual(at([{ ...db, followers: { hosts: ['h2'], of: 3, why: 'one on each host' } }]), {
    do: 'complete',
    warning: '1 of 3 db jobs are to follow: h2 is away',
  });
  assert.deepEqual(at([{ ...db, followers: { ...followers, hosts: ['h2', 'h2'] } }]), {
    do: 'complete',
    warning: '2 of 3 db jobs are to follow: their data is on h2, which is away',
  });
  assert.deepEqual(at([{ ...db, newExpected: 3, followers: undefined, leftOutAtMs: 200 }]), {
    do: 'wait',
    untilMs: 200,
  });
});

test('a host that goes away late is left out before the deployment would fail for it, but for the deadline of the whole', () => {
  const timeoutMs = 1_000;
  const leftOutAtMs = 0.6 * timeoutMs + patienceMs({ timeoutMs });
  const late = [web({ newUp: 1, leftOutAtMs })];
  assert.deepEqual(at(late, { nowMs: timeoutMs }), { do: 'wait', untilMs: leftOutAtMs });
  assert.deepEqual(at(late, { nowMs: timeoutMs, deadlineMs: 1_050 }), { do: 'wait', untilMs: 1_050 });
  assert.match(errorOf(at(late, { nowMs: 1_050, deadlineMs: 1_050 })), /not through by its deadline/);
  const leftOut = web({ newUp: 1, newExpected: 1, followers: { hosts: ['h3'], of: 2, why: 'one on each host' } });
  assert.deepEqual(at([leftOut], { nowMs: leftOutAtMs }), { do: 'switch' });
  const short = web({ newUp: 0, newExpected: 1 });
  assert.match(errorOf(at([short], { nowMs: leftOutAtMs })), /nothing more came up within 1 s/);
});

test('what is up and has yet to be so for long enough fails nothing, however long that is', () => {
  const young = [web({ newUp: 1, upSinceMs: 5, settledAtMs: 3_005 })];
  assert.deepEqual(at(young, { nowMs: 1_500 }), { do: 'wait', untilMs: 3_005 });
  assert.deepEqual(at([web({ newUp: 2, upSinceMs: 5 })], { nowMs: 3_005 }), { do: 'switch' });
  assert.match(errorOf(at([web({ newUp: 1, upSinceMs: 5 })], { nowMs: 3_005 })), /: 1 of 2 web jobs are up$/);
  const late = errorOf(at(young, { nowMs: 1_500, deadlineMs: 1_500 }));
  assert.match(late, /deadline: 1 of 2 web jobs are up for as long as they have to be$/);
});

test('canaries that are well are promoted by themselves when the time of all of them is over, where people asked for it', () => {
  const canary = (change: Partial<TypeState>, more: Partial<RolloutView> = {}) =>
    at(
      [
        web({ newWanted: 1, newExpected: 1, newUp: 1, upSinceMs: 100, ...change }),
        web({ type: 'x', newWanted: 1, newExpected: 1, newUp: 1, upSinceMs: 50 }),
      ],
      {
        plan: plan({ strategy: 'canary', autoPromoteMs: 5_000 }),
        phase: 'canary',
        heldSinceMs: 90,
        ...more,
      },
    );
  assert.deepEqual(canary({}, { phase: 'running' }), { do: 'hold' });
  assert.deepEqual(canary({}, { nowMs: 5_099 }), { do: 'wait', untilMs: 5_100 });
  assert.deepEqual(canary({}, { nowMs: 5_100 }), { do: 'promote' });
  assert.deepEqual(canary({}, { nowMs: 5_100, heldSinceMs: 200 }), { do: 'wait', untilMs: 5_200 });
  assert.deepEqual(canary({ upSinceMs: 3_000 }, { nowMs: 5_100 }), { do: 'wait', untilMs: 8_000 });
  const ill = canary({ newUp: 0, upSinceMs: undefined }, { nowMs: 5_100, progressMs: 5_000 });
  assert.deepEqual(ill, { do: 'wait', untilMs: 6_000 });
  const byHand = { plan: plan({ strategy: 'canary' }), nowMs: 9_000 };
  assert.deepEqual(canary({}, byHand), { do: 'wait', untilMs: undefined });
  assert.deepEqual(canary({}, { phase: 'paused', nowMs: 9_000 }), { do: 'wait', untilMs: undefined });
});

test('a release without jobs is live at once', () => {
  assert.deepEqual(at([]), { do: 'complete' });
  assert.deepEqual(at([web({ target: 0, original: 3, newWanted: 0, newExpected: 0 })]), { do: 'switch' });
  assert.deepEqual(at([web({ target: 0, original: 0, newWanted: 0, newExpected: 0, oldWanted: 0, oldPresent: 0 })]), {
    do: 'complete',
  });
});

test('one crashed job fails the deployment, with the reason, even if enough others are up', () => {
  const step = at([web({ newUp: 2, failed: { id: 'h1-a', type: 'web', exitCode: 3 } })]);
  assert.equal(step.do, 'fail');
  assert.match(errorOf(step), /web job .* exit code 3/);
  const killed = at([web({ failed: { id: 'h1-a', type: 'web', error: 'killed: out of memory (limit 512 MiB)' } })]);
  assert.match(errorOf(killed), /out of memory/);
  const again = at([web({ newUp: 1, failed: { id: 'h1-a', type: 'web', lastError: 'ended with exit code 1' } })]);
  assert.match(errorOf(again), /web job .* did not stay up: ended with exit code 1/);
});

test('what fails after the old release gave something up brings that back before the new one goes', () => {
  const reduced = web({ target: 8, original: 8, newWanted: 8, newUp: 4, oldWanted: 4, oldUp: 4, oldPresent: 4 });
  const failed = { ...reduced, failed: { id: 'a', type: 'web' } };
  assert.equal(at([failed]).do, 'roll_back');
  const back = (oldUp: number, nowMs = 0) =>
    at([{ ...failed, oldWanted: 8, oldUp }], { phase: 'rolling_back', failure: 'why', nowMs });
  assert.deepEqual(back(7), { do: 'wait', untilMs: 1_000 });
  assert.deepEqual(back(8), { do: 'fail', error: 'why' });
  assert.deepEqual(back(7, 1_000), { do: 'fail', error: 'why' }, 'it ends even if the old one does not come up');
});

test('a deployment without progress fails and says what is missing and why', () => {
  const step = at([web({ newUp: 1, blocked: '1 placed, 1 waiting: memory' })], { nowMs: 1_000 });
  assert.equal(errorOf(step), 'nothing more came up within 1 s: 1 of 2 web jobs are up (1 placed, 1 waiting: memory)');
  assert.deepEqual(at([web({ newUp: 1 })], { nowMs: 1_000, progressMs: 500 }), { do: 'wait', untilMs: 1_500 });
  const stuck = web({ newUp: 1, newWanted: 1, newExpected: 1, oldWanted: 1 });
  assert.equal(
    errorOf(at([stuck], { plan: plan({ strategy: 'one-by-one' }), nowMs: 1_000 })),
    'nothing more came up within 1 s: 1 old web jobs have not ended',
  );
});

test('a deadline ends it whatever progress there is; what is up by then is complete', () => {
  const late = { nowMs: 5_000, progressMs: 5_000, deadlineMs: 5_000 };
  assert.match(errorOf(at([web({ newUp: 1 })], late)), /not through by its deadline: 1 of 2 web jobs are up/);
  assert.deepEqual(at([web({ newUp: 2 })], late), { do: 'switch' });
  assert.deepEqual(at([web({ newUp: 2 })], { nowMs: 5_000 }), { do: 'switch' });
});

test('a job counts once it has been healthy for long enough', () => {
  assert.deepEqual(at([web({ newUp: 1, settledAtMs: 300 })]), { do: 'wait', untilMs: 300 });
});

test('paused, nothing happens and no time runs out, but it can be aborted', () => {
  const paused = { phase: 'paused', nowMs: 9_999, deadlineMs: 1 } as const;
  assert.deepEqual(at([web({ failed: { id: 'a', type: 'web' } })], paused), { do: 'wait', untilMs: undefined });
  assert.deepEqual(at([web({ newUp: 2 })], paused), { do: 'wait', untilMs: undefined });
  assert.deepEqual(at([web()], { ...paused, abort: 'it was aborted' }), { do: 'fail', error: 'it was aborted' });
});

test('canaries wait for a promotion without a deadline, and a crash among them fails all', () => {
  const canary = plan({ strategy: 'canary' });
  const one = web({ newWanted: 1, newExpected: 1, newUp: 1 });
  assert.deepEqual(at([one], { plan: canary }), { do: 'hold' });
  assert.deepEqual(at([one], { plan: canary, phase: 'canary', nowMs: 9_999 }), { do: 'wait', untilMs: undefined });
  assert.deepEqual(at([one], { plan: canary, isPromoted: true }), {
    do: 'scale',
    newCounts: { web: 2 },
    oldCounts: { web: 1 },
  });
  const crashed = { ...one, failed: { id: 'a', type: 'web', exitCode: 1 } };
  assert.equal(at([crashed], { plan: canary, phase: 'canary' }).do, 'fail');
  const all = web({ target: 1, original: 1, newWanted: 1, newExpected: 1, newUp: 1, oldWanted: 1, oldPresent: 1 });
  assert.deepEqual(at([all], { plan: canary }), { do: 'hold' }, 'also where the canaries are all there is');
  const first = web({ original: 0, newUp: 2, oldWanted: 0, oldPresent: 0 });
  assert.deepEqual(at([first], { plan: canary }), { do: 'complete' }, 'beside nothing there is nothing to try');
});

test('a type in place is left alone until its turn', () => {
  const db = web({ type: 'db', isInPlace: true, isSwitched: false, newWanted: 0, newExpected: 0, oldWanted: 0 });
  const step = at([web({ newWanted: 0, newExpected: 0, newUp: 0 }), db], { plan: plan({ strategy: 'one-by-one' }) });
  assert.deepEqual(step, { do: 'scale', newCounts: { web: 1 }, oldCounts: { web: 2, db: 0 } });
  assert.deepEqual(at([db], { plan: plan({ strategy: 'canary' }) }), { do: 'hold' });
  assert.deepEqual(at([db]), { do: 'scale', newCounts: { db: 2 }, oldCounts: { db: 0 } });
});

test('counts: prepared ones first, then the old release’s, then one web', () => {
  const counts = (input: Parameters<typeof targetCounts>[0]) => targetCounts(input);
  assert.deepEqual(counts({ types: ['web', 'worker'], prepared: undefined, old: undefined }), { web: 1, worker: 0 });
  assert.deepEqual(counts({ types: ['web'], prepared: undefined, old: { types: ['web'], counts: { web: 0 } } }), {
    web: 0,
  });
  assert.deepEqual(
    counts({
      types: ['web', 'worker', 'clock'],
      prepared: { clock: 1 },
      old: { types: ['web', 'worker'], counts: { web: 3, worker: 2, gone: 4 } },
    }),
    { web: 3, worker: 2, clock: 1 },
  );
  assert.deepEqual(counts({ types: ['web'], prepared: undefined, old: { types: ['worker'], counts: { worker: 2 } } }), {
    web: 1,
  });
});

/** Three jobs replaced by three: what came up and went down, in its order. */
const courses: Record<(typeof strategies)[number], string> = {
  'in-batches': 'up up up down down down',
  'all-at-once': 'up up up down down down',
  'one-by-one': 'up down up down up down',
  'one-down-one-up': 'down up down up down up',
  canary: 'up promote up up down down down',
};

for (const strategy of strategies) {
  test(`${strategy} replaces three jobs in its order`, () => {
    const course: string[] = [];
    const simulated = new Simulation([{ target: 3, original: 3, isInPlace: false }], plan({ strategy }), () => 1);
    simulated.run((what) => course.push(what));
    assert.equal(course.join(' '), courses[strategy]);
  });
}

test('in batches of two, two new ones come before two old ones go', () => {
  const course: string[] = [];
  const simulated = new Simulation([{ target: 10, original: 10, isInPlace: false }], plan({ batchSize: 2 }), () => 1);
  simulated.run((what) => course.push(what));
  assert.equal(course.slice(0, 2).join(' '), 'up up');
  assert.ok(simulated.most <= 10 + 2 * 2, `at most two batches more than wanted, not ${simulated.most}`);
});

const shape = fc.array(fc.record({ target: fc.nat(30), original: fc.nat(30), isInPlace: fc.boolean() }), {
  maxLength: 4,
});
const plans = fc.record({
  strategy: fc.constantFrom(...strategies),
  canaries: fc.integer({ min: 1, max: 5 }),
  minHealthyMs: fc.constant(0),
  batchSize: fc.option(fc.integer({ min: 1, max: 9 }), { nil: undefined }),
});

test('healthy jobs of a type never fall below min(original, target), and every rollout ends', () => {
  fc.assert(
    fc.property(shape, plans, fc.infiniteStream(fc.nat(3)), (shapes, chosen, pace) => {
      const { batchSize, ...rest } = chosen;
      const rollout: Rollout = { ...rest, ...(batchSize === undefined ? {} : { batchSize }) };
      const simulated = new Simulation(shapes, rollout, () => pace.next().value ?? 1);
      const slack = rollout.strategy === 'one-down-one-up' ? 1 : 0;
      simulated.run(() => {
        for (const type of simulated.types.filter(({ isInPlace }) => !isInPlace)) {
          const healthy = Math.min(type.oldWanted, type.oldPresent) + type.newUp;
          assert.ok(healthy >= Math.min(type.original, type.target) - slack, JSON.stringify(type));
          if (rollout.strategy === 'one-by-one') {
            assert.ok(type.newUp + type.oldPresent <= Math.max(type.original, type.target) + 1, JSON.stringify(type));
          }
          if (rollout.strategy === 'one-down-one-up') {
            assert.ok(type.newUp + type.oldPresent <= Math.max(type.original, type.target), JSON.stringify(type));
          }
        }
      });
      assert.ok(simulated.types.every((type) => type.newUp === type.target && type.oldPresent === 0));
    }),
    { numRuns: 300 },
  );
});

/** Carries steps out: in each round as many jobs of each type start and end as `pace` says. */
class Simulation {
  types: TypeState[];
  most = 0;
  readonly #plan: Rollout;
  readonly #pace: () => number;

  constructor(
    shapes: readonly Pick<TypeState, 'target' | 'original' | 'isInPlace'>[],
    rollout: Rollout,
    pace: () => number,
  ) {
    this.#plan = rollout;
    this.#pace = pace;
    this.types = shapes.map(({ target, original, isInPlace }, index) => ({
      type: `t${index}`,
      target,
      original,
      isInPlace,
      isSwitched: !isInPlace,
      newWanted: 0,
      newUp: 0,
      newExpected: 0,
      oldWanted: isInPlace ? 0 : original,
      oldUp: original,
      oldPresent: isInPlace ? 0 : original,
    }));
  }

  run(tell: (what: 'up' | 'down' | 'promote') => void): void {
    let phase: RolloutView['phase'] = 'running';
    let isPromoted = false;
    for (let round = 0; round < 20_000; round += 1) {
      const step = at(this.types, { plan: this.#plan, phase, isPromoted });
      if (step.do === 'complete') return;
      if (step.do === 'hold') {
        isPromoted = true;
        tell('promote');
      } else if (step.do === 'switch') {
        phase = 'finishing';
        this.types = this.types.map((type) => ({ ...type, oldWanted: 0 }));
      } else if (step.do === 'scale') {
        for (const { type, newUp, target } of this.types) {
          const most = this.#plan.strategy === 'all-at-once' ? target : batchOf(target, this.#plan);
          const isSmall = (step.newCounts[type] ?? 0) - newUp <= Math.max(most, this.#plan.canaries);
          assert.ok(isSmall || this.types.some((one) => one.isInPlace), 'one batch at a time');
        }
        this.types = this.types.map((type) => this.#scaled(type, step.newCounts[type.type], step.oldCounts[type.type]));
      } else {
        assert.equal(step.do, 'wait');
        this.#live(tell);
      }
    }
    assert.fail('it did not end');
  }

  #scaled(type: TypeState, newCount: number | undefined, oldCount: number | undefined): TypeState {
    const newWanted = newCount ?? type.newWanted;
    const isSwitched = type.isSwitched || newCount !== undefined;
    return { ...type, newWanted, newExpected: newWanted, isSwitched, oldWanted: oldCount ?? type.oldWanted };
  }

  #live(tell: (what: 'up' | 'down') => void): void {
    for (const [index, type] of this.types.entries()) {
      const started = Math.min(type.newWanted - type.newUp, this.#pace());
      const ended = Math.min(type.oldPresent - type.oldWanted, started > 0 ? 0 : this.#pace());
      this.types[index] = { ...type, newUp: type.newUp + started, oldPresent: type.oldPresent - ended };
      this.most = Math.max(this.most, type.newWanted + type.oldPresent);
      for (let n = 0; n < started; n += 1) tell('up');
      for (let n = 0; n < ended; n += 1) tell('down');
    }
  }
}
