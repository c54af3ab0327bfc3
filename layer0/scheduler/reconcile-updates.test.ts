/** How jobs take each other's place: by an update, by a drain, and where there are volumes. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { PlacedJob } from './cell-view.ts';
import type { Departure } from './drain.ts';
import type { Decision } from './reconcile.ts';
import { reconcileService } from './slots.ts';
import { placedOf, workloadOf } from './testing.ts';
import { now, inputOf, lost, leaving, summary, none, service, running } from './reconcile-fixture.ts';

describe('an update that starts first', () => {
  const v2 = workloadOf({ count: 2, version: 'v2' });
  const old = (id: string, index: number) => placedOf(v2, id, { version: 'v1', index, state: 'running' });
  const fresh = placedOf(v2, 'd', { index: 1, state: 'running' });
  it('stops one old job for each new one that runs', () => {
    const starting = placedOf(v2, 'c', { state: 'starting' });
    assert.deepEqual(service(v2, old('a', 0), old('b', 1)), { ...none, place: [0, 1] });
    assert.deepEqual(service(v2, old('a', 0), old('b', 1), starting, fresh), { ...none, stop: ['b'] });
    assert.deepEqual(service(v2, old('a', 0), starting, fresh), none);
    assert.deepEqual(service(v2, old('a', 0), placedOf(v2, 'c', { state: 'running' }), fresh), {
      ...none,
      stop: ['a'],
    });
  });
  it('never has more than a quarter, or four, on their way', () => {
    const many = workloadOf({ count: 20, version: 'v2' });
    const jobs = running(many, 20, { version: 'v1' });
    assert.equal(service(many, ...jobs).place.length, 5);
    const underway = [0, 1, 2].map((index) => placedOf(many, `n${index}`, { index, state: 'starting' }));
    assert.deepEqual(service(many, ...jobs, ...underway).place, [3, 4]);
  });
  it('keeps the old jobs as long as the new ones crash', () => {
    const crashed = [placedOf(v2, 'c', { state: 'crashed' }), placedOf(v2, 'd', { index: 1, state: 'crashed' })];
    assert.deepEqual(service(v2, old('a', 0), old('b', 1), ...crashed), none);
  });
});

describe('an update that stops first', () => {
  const v2 = workloadOf({ count: 2, version: 'v2', update: 'stop_first' });
  const old = (id: string, index: number, more = {}) =>
    placedOf(v2, id, { version: 'v1', index, state: 'running', ...more });
  const ended = old('a', 0, { desired: 'stop', state: 'done', isFinal: true });
  it('stops one slot, waits for its end, fills it, and goes on when that runs', () => {
    assert.deepEqual(service(v2, old('a', 0), old('b', 1)), { ...none, stop: ['a'] });
    assert.deepEqual(service(v2, old('a', 0, { desired: 'stop', state: 'stopping' }), old('b', 1)), none);
    assert.deepEqual(service(v2, ended, old('b', 1)), { place: [0], stop: [], release: ['a'] });
    assert.deepEqual(service(v2, placedOf(v2, 'c', { state: 'starting' }), old('b', 1)), none);
    assert.deepEqual(service(v2, placedOf(v2, 'c', { state: 'running' }), old('b', 1)), { ...none, stop: ['b'] });
  });
  it('replaces as many at a time as it may', () => {
    const wide = { ...v2, count: 5, maxParallel: 2 };
    assert.equal(service(wide, ...running(wide, 5, { version: 'v1' })).stop.length, 2);
  });
  it('has those go last that others are to take over from', () => {
    const leading = old('a', 0, { goesLast: true });
    assert.deepEqual(service(v2, leading, old('b', 1)), { ...none, stop: ['b'] });
    const starting = placedOf(v2, 'c', { index: 1, state: 'starting' });
    assert.deepEqual(service(v2, leading, starting), none);
    assert.deepEqual(service(v2, leading, placedOf(v2, 'c', { index: 1, state: 'running' })), { ...none, stop: ['a'] });
    assert.deepEqual(service(v2, leading, placedOf(v2, 'c', { index: 1, state: 'running', goesLast: true })).stop, [
      'a',
    ]);
    const broken = old('b', 1, { state: 'crashed', goesLast: true });
    assert.deepEqual(service(v2, broken).stop, ['b'], 'one that serves nobody is not kept for it');
  });
  it('does not wait for a broken version before it is replaced by the next', () => {
    assert.deepEqual(service(v2, old('a', 0, { state: 'crashed' }), old('b', 1)), { ...none, stop: ['a'] });
  });
  it('is what singletons get, and services with volumes', () => {
    const withVolume = workloadOf({ version: 'v2', template: { volumes: [{ name: 'data', path: '/data' }] } });
    assert.deepEqual(service(withVolume, old('a', 0)), { ...none, stop: ['a'] });
    const shared = workloadOf({ version: 'v2', template: { volumes: [{ name: 'c', path: '/c', isShared: true }] } });
    assert.deepEqual(shared.demand.volumes, []);
    assert.deepEqual(service(shared, old('a', 0)).stop, [], 'what it shares keeps it nowhere');
    assert.deepEqual(service(workloadOf({ version: 'v2', singleton: true }), old('a', 0)), { ...none, stop: ['a'] });
  });
});

describe('a slot with volumes', () => {
  const db = workloadOf({ version: 'v2', template: { volumes: [{ name: 'data', path: '/data' }] } });
  const job = (more = {}) => placedOf(db, 'a', { hostId: 'h3', state: 'running', ...more });
  const ended = job({ version: 'v1', desired: 'stop', state: 'done', isFinal: true });
  const whyHeld = (decision: Decision) => [...(decision.held ?? [])];
  it('goes back to the host where it was', () => {
    const decision = reconcileService(db, inputOf([ended]));
    assert.deepEqual(decision.place, [{ index: 0, why: 'destructive', hostId: 'h3', after: ended }]);
    assert.deepEqual(decision.release, [ended]);
  });
  it('waits for that host, which stays known, and never starts anew elsewhere', () => {
    for (const one of [job(), ended]) {
      const decision = reconcileService(db, inputOf([one], lost('h3')));
      assert.deepEqual(summary(decision), none);
      assert.deepEqual(whyHeld(decision), [['volume data is on h3, which is away', 1]]);
    }
  });
  it('is not moved by a drain, stops at its deadline, and waits until the drain is over', () => {
    assert.deepEqual(summary(reconcileService(db, inputOf([job()], leaving('h3')))), none);
    const due = leaving('h3', { isDue: true });
    assert.deepEqual(summary(reconcileService(db, inputOf([job()], due))), { ...none, stop: ['a'] });
    const after = reconcileService(db, inputOf([ended], due));
    assert.deepEqual([summary(after), whyHeld(after)], [none, [['volume data is on h3, which is draining', 1]]]);
  });
  it('that can be left goes back while its host is there, and elsewhere when that is lost or drained', () => {
    const volumes = [{ name: 'data', path: '/data', isReplaceable: true }];
    const logs = workloadOf({ version: 'v2', template: { volumes } });
    const jobOf = (more = {}) => placedOf(logs, 'a', { hostId: 'h3', state: 'running', ...more });
    const endedJob = jobOf({ version: 'v1', desired: 'stop', state: 'done', isFinal: true });
    assert.equal(reconcileService(logs, inputOf([endedJob])).place[0]?.hostId, 'h3');
    const isLost = reconcileService(logs, inputOf([jobOf()], lost('h3')));
    assert.deepEqual([isLost.place, whyHeld(isLost)], [[{ index: 0, why: 'lost' }], []]);
    assert.deepEqual(summary(reconcileService(logs, inputOf([jobOf()], leaving('h3')))), { ...none, stop: ['a'] });
    const drained = reconcileService(logs, inputOf([endedJob], leaving('h3')));
    assert.deepEqual([drained.place[0]?.hostId, whyHeld(drained)], [undefined, []]);
    const mixed = workloadOf({ version: 'v2', template: { volumes: [...volumes, { name: 'db', path: '/db' }] } });
    const ofMixed = placedOf(mixed, 'a', { hostId: 'h3', state: 'running' });
    assert.deepEqual(summary(reconcileService(mixed, inputOf([ofMixed], lost('h3')))), none);
  });
  it('goes anywhere when what was there had no volume of it', () => {
    const stateless = { ...ended, demand: { ...ended.demand, volumes: [] } };
    assert.deepEqual(reconcileService(db, inputOf([stateless])).place, [{ index: 0, why: 'destructive' }]);
  });
});

describe('a drain', () => {
  const web = workloadOf({ count: 3 });
  const on = (id: string, index: number, hostId: string, more = {}) =>
    placedOf(web, id, { index, hostId, state: 'running', ...more });
  const three = [on('a', 0, 'hd'), on('b', 1, 'hd'), on('c', 2, 'h2')];
  const decide = (jobs: PlacedJob[], more: Partial<Departure> = {}) =>
    summary(reconcileService(web, inputOf(jobs, leaving('hd', more))));
  it('has the replacement running before the old one stops, one at a time', () => {
    assert.deepEqual(decide(three), { ...none, place: [0] });
    assert.deepEqual(decide([...three, on('n', 0, 'h3', { state: 'starting' })]), none);
    assert.deepEqual(decide([...three, on('n', 0, 'h3')]), { ...none, place: [1], stop: ['a'] });
  });
  it('stops what is left at its deadline, and places all of that at once', () => {
    assert.deepEqual(decide(three, { isDue: true }), { ...none, place: [0, 1], stop: ['a', 'b'] });
  });
  it('is looked at again at its deadline', () => {
    const input = inputOf(three, leaving('hd', { deadlineAt: now + 60_000 }));
    assert.equal(reconcileService(web, input).retryAt, now + 60_000);
    assert.equal(
      reconcileService(web, inputOf([on('a', 0, 'h2')], leaving('hd', { deadlineAt: 1 }))).retryAt,
      undefined,
    );
  });
  it('that is cancelled moves nothing any more', () => {
    assert.deepEqual(service(web, ...three), none);
  });
  it('stops a singleton first', () => {
    const single = workloadOf({ singleton: true });
    const job = placedOf(single, 'a', { hostId: 'hd', state: 'running' });
    assert.deepEqual(summary(reconcileService(single, inputOf([job], leaving('hd')))), { ...none, stop: ['a'] });
    const ended = {
      ...job,
      desired: 'stop' as const,
      status: { state: 'done' as const, isFinal: true, createdAt: 0, version: 'v1' },
    };
    const decision = reconcileService(single, inputOf([ended], leaving('hd')));
    assert.deepEqual(decision.place, [{ index: 0, why: 'migrate' }]);
  });
});
