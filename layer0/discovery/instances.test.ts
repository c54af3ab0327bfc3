import * as fc from 'fast-check';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Instance } from './api.ts';
import { compareAge, leaderOf } from './election.ts';
import { diffInstances, hasAttributes, parseWhere, splitAddress } from './instances.ts';

const instance = (id: string, createdRevision: number, more: Partial<Instance> = {}): Instance => ({
  id,
  service: 'web',
  address: '10.0.0.1:80',
  attributes: {},
  createdRevision,
  ...more,
});
const setOf = (...list: Instance[]) => new Map(list.map((one) => [one.id, one]));

test('the oldest instance leads, whatever order they are seen in', () => {
  const list = [instance('c', 7), instance('a', 9), instance('b', 3)];
  assert.equal(leaderOf(list)?.id, 'b');
  assert.equal(leaderOf(list.toReversed())?.id, 'b');
  assert.equal(leaderOf([]), undefined);
  assert.deepEqual(
    [instance('b', 1), instance('a', 1)].toSorted(compareAge).map(({ id }) => id),
    ['a', 'b'],
  );
});

test('an instance that comes back with the same data but a new age is an update, and loses the lead', () => {
  const events = diffInstances(setOf(instance('a', 1), instance('b', 2)), setOf(instance('a', 5), instance('b', 2)));
  assert.deepEqual(
    events.map((event) => (event.event === 'current' ? '' : `${event.event} ${event.instance?.id}`)),
    ['update a', 'leader b'],
  );
});

test('applying a diff to the old set gives the new one', () => {
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
  fc.assert(
    fc.property(sets, sets, (before, after) => {
      const result = new Map(before);
      let leader = leaderOf(before.values());
      for (const event of diffInstances(before, after)) {
        if (event.event === 'down') result.delete(event.instance.id);
        else if (event.event === 'leader') leader = event.instance;
        else if (event.event !== 'current') result.set(event.instance.id, event.instance);
      }
      assert.deepEqual(
        result,
        new Map([...after].toSorted(([a], [b]) => [...result.keys()].indexOf(a) - [...result.keys()].indexOf(b))),
      );
      assert.deepEqual(leader, leaderOf(after.values()));
      assert.deepEqual(diffInstances(after, after), []);
    }),
  );
});

test('a condition is attribute=value, several with commas, and has to hold as a whole', () => {
  assert.deepEqual(parseWhere('zone=a,role=x=y'), { zone: 'a', role: 'x=y' });
  assert.throws(() => parseWhere('zone'), { code: 'invalid' });
  const one = instance('a', 1, { attributes: { zone: 'a', role: 'x' } });
  assert.equal(hasAttributes(one, { zone: 'a' }), true);
  assert.equal(hasAttributes(one, { zone: 'a', role: 'y' }), false);
});

test('an address splits at its port, brackets and all', () => {
  assert.deepEqual(splitAddress('10.1.2.3:80'), { host: '10.1.2.3', port: 80 });
  assert.deepEqual(splitAddress('[fd00::1]:80'), { host: 'fd00::1', port: 80 });
  assert.throws(() => splitAddress('10.1.2.3'), { code: 'invalid' });
});
