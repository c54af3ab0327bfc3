import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { nextPlacementAt, reconcileEphemeral, reconcileRemoved } from './reconcile.ts';
import type { Decision } from './reconcile.ts';
import { reconcileOmni, reconcileService } from './slots.ts';
import type { PlacedJob } from './snapshot.ts';
import { placedOf, statusOf, workloadOf } from './testing.ts';
import type { Workload } from './cell.ts';

const now = 1_000_000;
const inputOf = (placed: readonly PlacedJob[], lostHosts: readonly string[] = []) => ({
  placed,
  statuses: placed.flatMap(({ status }) => status ?? []),
  lostHosts: new Set(lostHosts),
  now,
});
const summary = ({ place, stop, release }: Decision) => ({
  place: place.map(({ index }) => index),
  stop: stop.map(({ job }) => job.id.slice(3)).sort(),
  release: release.map(({ job }) => job.id.slice(3)).sort(),
});
const service = (workload: Workload, ...placed: PlacedJob[]) => summary(reconcileService(workload, inputOf(placed)));

describe('a service', () => {
  const web3 = workloadOf({ count: 3 });
  it('places the slots that have no job', () => {
    assert.deepEqual(service(web3), { place: [0, 1, 2], stop: [], release: [] });
    assert.deepEqual(service(web3, placedOf(web3, 'b', { index: 1 })), { place: [0, 2], stop: [], release: [] });
  });
  it('leaves a job that crashed and is started again by its host where it is', () => {
    const one = workloadOf();
    assert.deepEqual(service(one, placedOf(one, 'a', { state: 'crashed' })), { place: [], stop: [], release: [] });
  });
  it('releases and replaces a job that ended for good, in its slot', () => {
    assert.deepEqual(
      service(
        web3,
        placedOf(web3, 'a', { state: 'running' }),
        placedOf(web3, 'b', { index: 1, state: 'failed', isFinal: true }),
        placedOf(web3, 'c', { index: 2, state: 'running' }),
      ),
      { place: [1], stop: [], release: ['b'] },
    );
  });
  it('replaces the jobs of a lost host, and waits for a host that is not lost yet', () => {
    const jobs = [
      placedOf(web3, 'a', { hostId: 'h2', state: 'running' }),
      placedOf(web3, 'b', { index: 1 }),
      placedOf(web3, 'c', { index: 2 }),
    ];
    assert.deepEqual(summary(reconcileService(web3, inputOf(jobs, ['h2']))), { place: [0], stop: [], release: ['a'] });
    assert.deepEqual(summary(reconcileService(web3, inputOf(jobs))), { place: [], stop: [], release: [] });
  });
  it('scales down by what does not run first, then by the highest slot', () => {
    const one = workloadOf({ count: 1 });
    const two = workloadOf({ count: 2 });
    const jobs = [
      placedOf(one, 'a', { state: 'starting' }),
      placedOf(one, 'b', { index: 1, state: 'running' }),
      placedOf(one, 'c', { index: 2, state: 'running' }),
    ];
    assert.deepEqual(service(two, ...jobs), { place: [], stop: ['a'], release: [] });
    assert.deepEqual(service(one, ...jobs), { place: [], stop: ['a', 'c'], release: [] });
    assert.deepEqual(service(workloadOf({ count: 0 }), ...jobs), { place: [], stop: ['a', 'b', 'c'], release: [] });
  });
  it('does not place anew what is still being stopped beyond its count', () => {
    const one = workloadOf({ count: 1 });
    assert.deepEqual(
      service(
        one,
        placedOf(one, 'a', { state: 'running' }),
        placedOf(one, 'b', { index: 1, desired: 'stop', state: 'stopping' }),
      ),
      { place: [], stop: [], release: [] },
    );
  });
});

describe('an update that starts first', () => {
  const v2 = workloadOf({ count: 2, version: 'v2' });
  const old = (id: string, index: number) => placedOf(v2, id, { version: 'v1', index, state: 'running' });
  it('places all new jobs and stops nothing', () => {
    assert.deepEqual(service(v2, old('a', 0), old('b', 1)), { place: [0, 1], stop: [], release: [] });
  });
  it('stops one old job for each new one that runs', () => {
    const starting = placedOf(v2, 'c', { state: 'starting' });
    const running = placedOf(v2, 'd', { index: 1, state: 'running' });
    assert.deepEqual(service(v2, old('a', 0), old('b', 1), starting, running), { place: [], stop: ['b'], release: [] });
    assert.deepEqual(service(v2, old('a', 0), starting, running), { place: [], stop: [], release: [] });
    assert.deepEqual(service(v2, old('a', 0), placedOf(v2, 'c', { state: 'running' }), running), {
      place: [],
      stop: ['a'],
      release: [],
    });
  });
  it('never has more than a quarter, or four, on their way', () => {
    const many = workloadOf({ count: 20, version: 'v2' });
    const jobs = Array.from({ length: 20 }, (_, index) =>
      placedOf(many, `o${index}`, { version: 'v1', index, state: 'running' }),
    );
    assert.equal(service(many, ...jobs).place.length, 5);
    const underway = [0, 1, 2].map((index) => placedOf(many, `n${index}`, { index, state: 'starting' }));
    assert.deepEqual(service(many, ...jobs, ...underway).place, [3, 4]);
  });
  it('keeps the old jobs as long as the new ones crash', () => {
    const jobs = [
      old('a', 0),
      old('b', 1),
      placedOf(v2, 'c', { state: 'crashed' }),
      placedOf(v2, 'd', { index: 1, state: 'crashed' }),
    ];
    assert.deepEqual(service(v2, ...jobs), { place: [], stop: [], release: [] });
  });
});

describe('an update that stops first', () => {
  const v2 = workloadOf({ count: 2, version: 'v2', update: 'stop_first' });
  const old = (id: string, index: number, more = {}) =>
    placedOf(v2, id, { version: 'v1', index, state: 'running', ...more });
  it('stops one slot, waits for its end, fills it on the same host, and goes on when that runs', () => {
    assert.deepEqual(service(v2, old('a', 0), old('b', 1)), { place: [], stop: ['a'], release: [] });
    assert.deepEqual(service(v2, old('a', 0, { desired: 'stop', state: 'stopping' }), old('b', 1)), {
      place: [],
      stop: [],
      release: [],
    });
    const ended = reconcileService(
      v2,
      inputOf([old('a', 0, { desired: 'stop', state: 'done', isFinal: true }), old('b', 1)]),
    );
    assert.deepEqual(summary(ended), { place: [0], stop: [], release: ['a'] });
    assert.deepEqual(ended.place, [{ index: 0, preferHostId: 'h1' }]);
    assert.deepEqual(service(v2, placedOf(v2, 'c', { state: 'starting' }), old('b', 1)), {
      place: [],
      stop: [],
      release: [],
    });
    assert.deepEqual(service(v2, placedOf(v2, 'c', { state: 'running' }), old('b', 1)), {
      place: [],
      stop: ['b'],
      release: [],
    });
  });
  it('does not wait for a broken version before it is replaced by the next', () => {
    assert.deepEqual(service(v2, old('a', 0, { state: 'crashed' }), old('b', 1)), {
      place: [],
      stop: ['a'],
      release: [],
    });
  });
  it('is what a service with volumes gets', () => {
    const withVolume = workloadOf({ version: 'v2', template: { volumes: [{ name: 'data', path: '/data' }] } });
    assert.deepEqual(service(withVolume, old('a', 0)), { place: [], stop: ['a'], release: [] });
  });
});

describe('jobs that keep failing', () => {
  const one = workloadOf();
  const failed = (id: string, endedAt: number) => placedOf(one, id, { state: 'failed', isFinal: true, endedAt });
  it('are replaced at once the first time, then after growing pauses', () => {
    const waits = [1, 2, 3, 4, 12].map((failures) => {
      const jobs = Array.from({ length: failures }, (_, n) => failed(`f${n}`, now));
      return nextPlacementAt(one, inputOf(jobs)) - now;
    });
    assert.deepEqual(waits, [0, 1_000, 2_000, 4_000, 60_000]);
  });
  it('are left assigned until then, and failures of another version do not count', () => {
    const decision = reconcileService(one, inputOf([failed('a', now - 10), failed('b', now - 5)]));
    assert.deepEqual(summary(decision), { place: [], stop: [], release: [] });
    assert.equal(decision.retryAt, now + 995);
    const other = {
      ...inputOf([]),
      statuses: ['a', 'b'].map((id) =>
        statusOf({ ...failed(id, now).job, version: 'v0' }, 'h1', 'failed', { isFinal: true, endedAt: now }),
      ),
    };
    assert.deepEqual(summary(reconcileService(one, other)), { place: [0], stop: [], release: [] });
  });
});

describe('an ephemeral workload', () => {
  const run = workloadOf({ kind: 'ephemeral' });
  const decide = (workload: Workload, placed: PlacedJob[], lost: string[] = []) => {
    const decision = reconcileEphemeral(workload, inputOf(placed, lost));
    return { ...summary(decision), isFinished: decision.isFinished === true };
  };
  it('is placed once, and finished when its job ended, failed, or was lost', () => {
    assert.deepEqual(decide(run, []), { place: [0], stop: [], release: [], isFinished: false });
    assert.deepEqual(decide(run, [placedOf(run, 'a', { state: 'running' })]), {
      place: [],
      stop: [],
      release: [],
      isFinished: false,
    });
    const finished = { place: [], stop: [], release: ['a'], isFinished: true };
    assert.deepEqual(decide(run, [placedOf(run, 'a', { state: 'done', isFinal: true })]), finished);
    assert.deepEqual(decide(run, [placedOf(run, 'a', { state: 'failed', isFinal: true })]), finished);
    assert.deepEqual(decide(run, [placedOf(run, 'a', { state: 'running' })], ['h1']), finished);
  });
  it('is not replaced when its version changes, and stops with count 0', () => {
    const job = placedOf(run, 'a', { state: 'running', version: 'v0' });
    assert.deepEqual(decide(run, [job]), { place: [], stop: [], release: [], isFinished: false });
    assert.deepEqual(decide({ ...run, count: 0 }, [job]), { place: [], stop: ['a'], release: [], isFinished: false });
    assert.deepEqual(decide({ ...run, count: 0 }, []), { place: [], stop: [], release: [], isFinished: false });
  });
});

describe('an omni workload', () => {
  const omni = workloadOf({ kind: 'omni', version: 'v2' });
  const on = (hostId: string, more = {}) => placedOf(omni, hostId, { hostId, state: 'running', ...more });
  const decide = (workload: Workload, placed: PlacedJob[], meant: string[], closed: string[] = []) => {
    const decision = reconcileOmni(workload, inputOf(placed), { meant, isOpen: (hostId) => !closed.includes(hostId) });
    return { place: decision.place.map(({ hostId }) => hostId), stop: decision.stop.map(({ hostId }) => hostId) };
  };
  it('has one job on every host that is meant and open', () => {
    assert.deepEqual(decide(omni, [on('h1')], ['h1', 'h2', 'h3'], ['h3']), { place: ['h2'], stop: [] });
    assert.deepEqual(decide(omni, [on('h1'), on('h2')], ['h1']), { place: [], stop: ['h2'] });
    assert.deepEqual(decide(omni, [on('h1')], ['h1'], ['h1']), { place: [], stop: [] });
    assert.deepEqual(decide({ ...omni, count: 0 }, [on('h1')], ['h1', 'h2']), { place: [], stop: ['h1'] });
  });
  it('starts the new version beside the old one of each host, and stops that when the new one runs', () => {
    const old = on('h1', { version: 'v1' });
    assert.deepEqual(decide(omni, [old], ['h1']), { place: ['h1'], stop: [] });
    assert.deepEqual(decide(omni, [old, placedOf(omni, 'n', { state: 'starting' })], ['h1']), { place: [], stop: [] });
    assert.deepEqual(decide(omni, [old, placedOf(omni, 'n', { state: 'running' })], ['h1']), {
      place: [],
      stop: ['h1'],
    });
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

it('a workload that is gone stops its jobs and lets go of those that ended', () => {
  const gone = workloadOf();
  const jobs = [
    placedOf(gone, 'a', { state: 'running' }),
    placedOf(gone, 'b', { state: 'done', isFinal: true }),
    placedOf(gone, 'c', { desired: 'stop' }),
  ];
  assert.deepEqual(summary(reconcileRemoved(inputOf(jobs))), { place: [], stop: ['a'], release: ['b'] });
});
