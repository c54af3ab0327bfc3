import * as fc from 'fast-check';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Instance } from './api.ts';
import { summarize } from './conformance.ts';
import { compareAge, leaderOf } from './election.ts';
import { findAddress, hasAttributes } from './instances.ts';
import { KnownServices, diffService } from './service-state.ts';

const instance = (id: string, createdRevision: number, more: Partial<Instance> = {}): Instance => ({
  id,
  service: 'web',
  address: '10.0.0.1:80',
  attributes: {},
  createdRevision,
  ...more,
});
const setOf = (...list: Instance[]) => new Map(list.map((one) => [one.id, one]));
const oldest = { by: 'oldest' } as const;
const stateOf = (instances: ReadonlyMap<string, Instance>, version?: number) => ({
  instances,
  leader: leaderOf(instances, oldest),
  meta: version === undefined ? undefined : { data: version, version },
});

test('the oldest instance leads, whatever order they are seen in', () => {
  const list = [instance('c', 7), instance('a', 9), instance('b', 3)];
  assert.equal(leaderOf(setOf(...list), oldest)?.id, 'b');
  assert.equal(leaderOf(setOf(...list.toReversed()), oldest)?.id, 'b');
  assert.equal(leaderOf(setOf(), oldest), undefined);
  assert.deepEqual(
    [instance('b', 1), instance('a', 1)].toSorted(compareAge).map(({ id }) => id),
    ['a', 'b'],
  );
});

test('an instance that comes back with the same data but a new age is an update, and loses the lead', () => {
  const events = diffService(
    'web',
    stateOf(setOf(instance('a', 1), instance('b', 2))),
    stateOf(setOf(instance('a', 5), instance('b', 2))),
  );
  assert.deepEqual(events.map(summarize), ['update a', 'leader b']);
});

test('the events that lead from one state to another, folded into the one, give the other', () => {
  const sets = fc
    .uniqueArray(
      fc.record({
        id: fc.constantFrom('a', 'b', 'c', 'd', 'e'),
        revision: fc.integer({ min: 1, max: 5 }),
        port: fc.integer({ min: 1, max: 3 }),
      }),
      { selector: ({ id }) => id },
    )
    .map((list) => setOf(...list.map(({ id, revision, port }) => instance(id, revision, { address: `h:${port}` }))));
  const states = fc
    .tuple(sets, fc.option(fc.integer({ min: 1, max: 3 }), { nil: undefined }))
    .map(([set, version]) => stateOf(set, version));
  fc.assert(
    fc.property(states, states, (before, after) => {
      const known = new KnownServices();
      known.catchUp(new Map([['web', before]]));
      const copy = new KnownServices();
      for (const event of [...diffService('web', stateOf(setOf()), before), ...diffService('web', before, after)]) {
        assert.ok(copy.apply(event), 'an event that says nothing');
      }
      known.catchUp(new Map([['web', after]]));
      for (const { services } of [known, copy]) {
        assert.deepEqual(diffService('web', services.get('web') ?? stateOf(setOf()), after), []);
      }
      assert.deepEqual(known.catchUp(new Map([['web', after]])), []);
    }),
  );
});

test('an instance has a condition if it has every attribute of it', () => {
  const one = instance('a', 1, { attributes: { zone: 'a', role: 'x' } });
  assert.equal(hasAttributes(one, { zone: 'a' }), true);
  assert.equal(hasAttributes(one, { zone: 'a', role: 'y' }), false);
});

test('an address splits at its port, brackets and all', () => {
  assert.deepEqual(findAddress('10.1.2.3:80'), { host: '10.1.2.3', port: 80 });
  assert.deepEqual(findAddress('[fd00::1]:80'), { host: 'fd00::1', port: 80 });
  for (const bad of ['10.1.2.3', 'a:b', 'a:70000', '']) assert.equal(findAddress(bad), undefined);
});
