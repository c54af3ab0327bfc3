import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Workload } from './cell.ts';
import type { PlacedJob } from './cell-view.ts';
import { reconcileOmni } from './omni-slots.ts';
import { reconcileRemoved } from './reconcile.ts';
import type { ReconcileInput } from './reconcile.ts';
import { judgeReschedule } from './reschedule.ts';
import { reconcileEphemeral, reconcileGang } from './runs.ts';
import { reconcileService } from './slots.ts';
import { placedOf, workloadOf } from './testing.ts';
import { now, inputOf, lost, leaving, summary, none, service, countsOf, running } from './reconcile-fixture.ts';

describe('a service of ten', () => {
  const ten = workloadOf({ count: 10 });
  const v2 = workloadOf({ count: 10, version: 'v2', maxParallel: 4 });
  const old = running(v2, 10, { version: 'v1' });

  const twoOnDraining = [...running(ten, 2, { hostId: 'hd' }), ...running(ten, 10).slice(2)];

  const table: [string, Record<string, number>, Record<string, number>][] = [
    ['none: place 10', countsOf(ten, []), { missing: 10 }],
    ['five: place 5, ignore 5', countsOf(ten, running(ten, 5)), { missing: 5, ignore: 5 }],
    ['twenty: stop 10', countsOf(ten, running(ten, 20)), { stop: 10, ignore: 10 }],
    ['count 0: stop 20', countsOf(workloadOf({ count: 0 }), running(ten, 20)), { stop: 20 }],
    [
      'only scheduling fields changed: nothing restarts',
      countsOf(workloadOf({ count: 10, priority: 90, spread: ['rack'] }), running(ten, 10)),
      { ignore: 10 },
    ],
    [
      'only scheduling fields changed, and 5 more',
      countsOf(workloadOf({ count: 15, priority: 90 }), running(ten, 10)),
      { missing: 5, ignore: 10 },
    ],
    ['all at once: destructive 10', countsOf({ ...v2, maxParallel: 10 }, old), { destructive: 10 }],
    ['four at a time: destructive 4, ignore 6', countsOf(v2, old), { destructive: 4, ignore: 6 }],
    [
      'lost 2: place 2, release 2, ignore 8',
      countsOf(ten, running(ten, 10), lost('h0', 'h1')),
      { lost: 2, release: 2, ignore: 8 },
    ],
    [
      'lost 2, scaled up to 15: place 7',
      countsOf(workloadOf({ count: 15 }), running(ten, 10), lost('h0', 'h1')),
      { lost: 2, missing: 5, release: 2, ignore: 8 },
    ],
    [
      'lost 2, scaled down to 5: stop 3, place none',
      countsOf(workloadOf({ count: 5 }), running(ten, 10), lost('h0', 'h1')),
      { stop: 3, release: 2, ignore: 5 },
    ],
    [
      'lost 2 during an update: those at once, and 2 of 4 more',
      countsOf(v2, old, lost('h0', 'h1')),
      { lost: 2, destructive: 2, release: 2, ignore: 6 },
    ],
    [
      'drain 2, two at a time: migrate 2',
      countsOf(ten, twoOnDraining, leaving('hd', { maxParallel: 2 })),
      { migrate: 2, ignore: 8 },
    ],
    [
      'drain 2, scaled up to 12: place 2, migrate 0 until those run',
      countsOf(workloadOf({ count: 12 }), twoOnDraining, leaving('hd')),
      { missing: 2, ignore: 10 },
    ],
    [
      'drain 2, scaled down to 8: the two that drain stop',
      countsOf(workloadOf({ count: 8 }), twoOnDraining, leaving('hd')),
      { stop: 2, ignore: 8 },
    ],
  ];
  for (const [name, found, expected] of table) it(name, () => assert.deepEqual(found, expected));

  it('goes on with an update exactly as many as are healthy', () => {
    for (const healthy of [0, 1, 2, 3, 4]) {
      const fresh = [0, 1, 2, 3].map((index) =>
        placedOf(v2, `n${index}`, { index, state: index < healthy ? 'running' : 'starting' }),
      );
      const { place, stop } = reconcileService(v2, inputOf([...old, ...fresh]));
      assert.deepEqual([place.length, stop.length], [healthy, healthy]);
    }
  });
});

describe('a service', () => {
  const web3 = workloadOf({ count: 3 });
  it('places the slots that have no job', () => {
    assert.deepEqual(service(web3), { ...none, place: [0, 1, 2] });
    assert.deepEqual(service(web3, placedOf(web3, 'b', { index: 1 })), { ...none, place: [0, 2] });
  });
  it('leaves a job that crashed and is started again by its host where it is', () => {
    const one = workloadOf();
    assert.deepEqual(service(one, placedOf(one, 'a', { state: 'crashed' })), none);
  });
  it('releases and replaces a job that ended for good, in its slot, and never twice', () => {
    const failed = placedOf(web3, 'b', { index: 1, state: 'failed', isFinal: true, endedAt: now - 5_000 });
    const others = [placedOf(web3, 'a', { state: 'running' }), placedOf(web3, 'c', { index: 2, state: 'running' })];
    assert.deepEqual(service(web3, ...others, failed), { place: [1], stop: [], release: ['b'] });
    const replacement = placedOf(web3, 'd', { index: 1, createdAt: now });
    assert.deepEqual(service(web3, ...others, failed, replacement), { place: [], stop: [], release: ['b'] });
  });
  it('waits for a host that is not lost yet', () => {
    assert.deepEqual(service(web3, ...running(web3, 3, { hostId: 'away' })), none);
  });
  it('scales down by what does not run first, then by the highest slot', () => {
    const one = workloadOf();
    const jobs = [
      placedOf(one, 'a', { state: 'starting' }),
      placedOf(one, 'b', { index: 1, state: 'running' }),
      placedOf(one, 'c', { index: 2, state: 'running' }),
    ];
    assert.deepEqual(service(workloadOf({ count: 2 }), ...jobs), { ...none, stop: ['a'] });
    assert.deepEqual(service(one, ...jobs), { ...none, stop: ['a', 'c'] });
    assert.deepEqual(service(workloadOf({ count: 0 }), ...jobs), { ...none, stop: ['a', 'b', 'c'] });
  });
  it('does not place anew what is still being stopped beyond its count', () => {
    const one = workloadOf();
    const stopping = placedOf(one, 'b', { index: 1, desired: 'stop', state: 'stopping' });
    assert.deepEqual(service(one, placedOf(one, 'a', { state: 'running' }), stopping), none);
  });
  it('that is gone stops its jobs and lets go of those that ended', () => {
    const jobs = [
      placedOf(web3, 'a', { state: 'running' }),
      placedOf(web3, 'b', { state: 'done', isFinal: true }),
      placedOf(web3, 'c', { desired: 'stop' }),
    ];
    assert.deepEqual(summary(reconcileRemoved(inputOf(jobs))), { place: [], stop: ['a'], release: ['b'] });
  });
});

describe('jobs that keep failing', () => {
  const one = workloadOf();
  const failed = (id: string, endedAt: number, more = {}) =>
    placedOf(one, id, { state: 'failed', isFinal: true, endedAt, ...more });
  it('are replaced after growing pauses', () => {
    const waits = [1, 2, 3, 4, 12].map((failures) => {
      const verdict = judgeReschedule(one, inputOf(Array.from({ length: failures }, (_, n) => failed(`f${n}`, now))));
      return verdict.kind === 'later' ? verdict.at - now : verdict.kind;
    });
    assert.deepEqual(waits, [1_000, 2_000, 4_000, 8_000, 60_000]);
  });
  it('are replaced at once when the pause is over, and failures from before the interval do not count', () => {
    assert.deepEqual(judgeReschedule(one, inputOf([failed('a', now - 1_000)])), { kind: 'now' });
    const old = Array.from({ length: 5 }, (_, n) => failed(`f${n}`, now - 601_000));
    assert.deepEqual(judgeReschedule(one, inputOf([...old, failed('a', now)])), { kind: 'later', at: now + 1_000 });
  });
  it('are left assigned until then, and the other slots are filled meanwhile', () => {
    const two = workloadOf({ count: 2 });
    const decision = reconcileService(two, inputOf([failed('a', now)]));
    assert.deepEqual(summary(decision), { ...none, place: [1] });
    assert.equal(decision.retryAt, now + 1_000);
  });
  it('of another version do not count, and those of a lost host do not wait', () => {
    assert.deepEqual(service(one, failed('a', now, { version: 'v0' })), { place: [0], stop: [], release: ['a'] });
    const gone = reconcileService(one, inputOf([failed('a', now)], lost('h1')));
    assert.deepEqual(summary(gone), { place: [0], stop: [], release: ['a'] });
  });
  it('are given up after as many as the workload allows, until its version changes', () => {
    const limited = workloadOf({ reschedule: { attempts: 1, intervalMs: 60_000 } });
    const jobs = [failed('a', now - 900_000), failed('b', now - 900_500)];
    const decision = reconcileService(
      limited,
      inputOf(jobs.slice(0, 1), { ended: jobs.flatMap(({ status }) => status ?? []) }),
    );
    assert.deepEqual(summary(decision), none);
    assert.equal(decision.gaveUp, 'failed 2 times within 1 min: not replaced any more');
    assert.deepEqual(summary(reconcileService({ ...limited, version: 'v2' }, inputOf(jobs))).place, [0]);
  });
  it('do not wait for ever for a host whose clock runs ahead', () => {
    assert.deepEqual(judgeReschedule(one, inputOf([failed('a', now + 3_600_000, { createdAt: now - 5_000 })])), {
      kind: 'now',
    });
  });
  it('do not wait for a time that a scheduler with its clock ahead gave them, nor without a pause once it is right', () => {
    const ahead = [1, 2, 3].map((n) => failed(`f${n}`, now + 3_600_000 + n, { createdAt: now + 3_600_000 }));
    assert.deepEqual(judgeReschedule(one, inputOf(ahead)), { kind: 'now' });
    const verdict = judgeReschedule(one, inputOf([...ahead, failed('a', now, { createdAt: now - 1_000 })]));
    assert.deepEqual(verdict, { kind: 'later', at: now + 1_000 });
  });
  it('hold up an update that makes them, not more of them are placed', () => {
    const v2 = workloadOf({ count: 10, version: 'v2', maxParallel: 2 });
    const old = running(v2, 10, { version: 'v1' });
    const broken = [0, 1].map((index) =>
      placedOf(v2, `n${index}`, { index, state: 'failed', isFinal: true, endedAt: now }),
    );
    assert.deepEqual(service(v2, ...old, ...broken), none);
  });
});

describe('an ephemeral workload', () => {
  const run = workloadOf({ kind: 'ephemeral' });
  const decide = (workload: Workload, placed: PlacedJob[], more: Partial<ReconcileInput> = {}) => {
    const decision = reconcileEphemeral(workload, inputOf(placed, more));
    return { ...summary(decision), remaining: decision.remaining };
  };
  const idle = { ...none, remaining: undefined };
  it('is placed once, and has nothing left to run when its job ended, failed, or was lost', () => {
    assert.deepEqual(decide(run, []), { ...idle, place: [0] });
    assert.deepEqual(decide(run, [placedOf(run, 'a', { state: 'running' })]), idle);
    const finished = { ...none, release: ['a'], remaining: 0 };
    assert.deepEqual(decide(run, [placedOf(run, 'a', { state: 'done', isFinal: true })]), finished);
    assert.deepEqual(decide(run, [placedOf(run, 'a', { state: 'failed', isFinal: true })]), finished);
    assert.deepEqual(decide(run, [placedOf(run, 'a', { state: 'running' })], lost('h1')), finished);
  });
  it('of many runs each once: what is still to be placed are the lowest indexes', () => {
    const many = workloadOf({ kind: 'ephemeral', count: 5 });
    assert.deepEqual(decide(many, []).place, [4, 3, 2, 1, 0]);
    const jobs = [placedOf(many, 'a', { index: 4, state: 'done', isFinal: true }), placedOf(many, 'b', { index: 3 })];
    assert.deepEqual(decide(many, jobs), { place: [2, 1, 0], stop: [], release: ['a'], remaining: 4 });
    assert.deepEqual(decide({ ...many, count: 4 }, jobs.slice(1)).place, [2, 1, 0]);
  });
  it('is not replaced when its version changes, stops with count 0, and is let finish by a drain until its deadline', () => {
    const job = placedOf(run, 'a', { state: 'running', version: 'v0' });
    assert.deepEqual(decide(run, [job]), idle);
    assert.deepEqual(decide({ ...run, count: 0 }, [job]), { ...idle, stop: ['a'] });
    assert.deepEqual(decide({ ...run, count: 0 }, []), idle);
    assert.deepEqual(decide(run, [job], leaving('h1')), idle);
    assert.deepEqual(decide(run, [job], leaving('h1', { isDue: true })), { ...idle, stop: ['a'] });
  });
});

describe('a gang', () => {
  const gang = workloadOf({ kind: 'gang', count: 3 });
  const decide = (placed: PlacedJob[], more: Partial<ReconcileInput> = {}, workload = gang) => {
    const decision = reconcileGang(workload, inputOf(placed, more));
    return { ...summary(decision), remaining: decision.remaining };
  };
  const idle = { ...none, remaining: undefined };
  const members = running(gang, 3);
  it('is placed whole, and a lost member is replaced', () => {
    assert.deepEqual(decide([]), { ...idle, place: [0, 1, 2] });
    assert.deepEqual(decide(members), idle);
    assert.deepEqual(decide(members, lost('h1')), { ...idle, place: [1], release: ['j1'] });
  });
  it('starts a new version when nothing of the old one is left', () => {
    const v2 = workloadOf({ kind: 'gang', count: 3, version: 'v2' });
    assert.deepEqual(decide(members, {}, v2), { ...idle, stop: ['j0', 'j1', 'j2'] });
    const stopping = running(gang, 3, { desired: 'stop' });
    assert.deepEqual(decide(stopping, {}, v2), idle);
  });
  it('is done when every member has done its part', () => {
    const done = running(gang, 3, { state: 'done', isFinal: true, endedAt: 0 });
    assert.deepEqual(decide([...done.slice(0, 2), ...members.slice(2)]), idle);
    assert.deepEqual(decide(done), { ...idle, release: ['j0', 'j1', 'j2'], remaining: 0 });
  });
});

describe('an omni workload', () => {
  const omni = workloadOf({ kind: 'omni', version: 'v2' });
  const on = (hostId: string, more = {}) => placedOf(omni, hostId, { hostId, state: 'running', ...more });
  const decide = (workload: Workload, placed: PlacedJob[], meant: string[], closed: string[] = []) => {
    const decision = reconcileOmni(workload, inputOf(placed), {
      meant,
      unsuited: new Set(),
      isOpen: (hostId) => !closed.includes(hostId),
    });
    return { place: decision.place.map(({ hostId }) => hostId), stop: decision.stop.map(({ hostId }) => hostId) };
  };
  it('has one job on every host that is meant and open', () => {
    assert.deepEqual(decide(omni, [on('h1')], ['h1', 'h2', 'h3'], ['h3']), { place: ['h2'], stop: [] });
    assert.deepEqual(decide(omni, [on('h1'), on('h2')], ['h1']), { place: [], stop: ['h2'] });
    assert.deepEqual(decide(omni, [on('h1')], ['h1'], ['h1']), { place: [], stop: [] });
    assert.deepEqual(decide({ ...omni, count: 0 }, [on('h1')], ['h1', 'h2']), { place: [], stop: ['h1'] });
  });
  it('has as many on each host as its count', () => {
    assert.deepEqual(decide({ ...omni, count: 2 }, [on('h1')], ['h1', 'h2']), { place: ['h1', 'h2', 'h2'], stop: [] });
  });
  it('starts the new version beside the old one of each host, and stops that when the new one runs', () => {
    const old = on('h1', { version: 'v1' });
    const fresh = (state: 'starting' | 'running') => placedOf(omni, 'n', { state });
    assert.deepEqual(decide(omni, [old], ['h1']), { place: ['h1'], stop: [] });
    assert.deepEqual(decide(omni, [old, fresh('starting')], ['h1']), { place: [], stop: [] });
    assert.deepEqual(decide(omni, [old, fresh('running')], ['h1']), { place: [], stop: ['h1'] });
  });
  it('stops first on one host after the other if it has to', () => {
    const exclusive: Workload = { ...omni, update: 'stop_first' };
    const old1 = on('h1', { version: 'v1' });
    const old2 = on('h2', { version: 'v1' });
    assert.deepEqual(decide(exclusive, [old1, old2], ['h1', 'h2']), { place: [], stop: ['h1'] });
    assert.deepEqual(decide(exclusive, [on('h1', { state: 'starting' }), old2], ['h1', 'h2']), { place: [], stop: [] });
    assert.deepEqual(decide(exclusive, [on('h1'), old2], ['h1', 'h2']), { place: [], stop: ['h2'] });
  });
});
