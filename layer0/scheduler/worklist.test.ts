import assert from 'node:assert/strict';
import { test } from 'node:test';
import { judgeLosses, trackMissing } from './losses.ts';
import { Worklist, isOwnWorkload } from './worklist.ts';

const own = { isOwn: () => true, priorityOf: () => 50, limit: 10 };
const idsOf = (items: { workloadId: string }[]) => items.map(({ workloadId }) => workloadId);

test('what is due is taken once, by priority and then by age', () => {
  const list = new Worklist({ takeoverMs: 100 });
  list.add('b', 'workload', 1);
  list.add('a', 'workload', 2);
  list.add('c', 'workload', 3);
  list.add('b', 'health', 4);
  list.add('later', 'workload', 0, { afterMs: 50 });
  assert.deepEqual(idsOf(list.take({ ...own, now: 5, limit: 2, priorityOf: (id) => (id === 'c' ? 60 : 50) })), [
    'c',
    'b',
  ]);
  assert.deepEqual(idsOf(list.take({ ...own, now: 5 })), ['a']);
  assert.equal(list.nextAt(own.isOwn), 50);
  list.add('later', 'health', 10);
  assert.deepEqual(idsOf(list.take({ ...own, now: 10 })), ['later']);
  assert.equal(list.nextAt(own.isOwn), undefined);
});

test("what is another scheduler's is left to it for a while", () => {
  const list = new Worklist({ takeoverMs: 100 });
  list.add('a', 'workload', 0);
  assert.deepEqual(list.take({ ...own, isOwn: () => false, now: 99 }), []);
  assert.equal(
    list.nextAt(() => false),
    100,
  );
  assert.deepEqual(idsOf(list.take({ ...own, isOwn: () => false, now: 100 })), ['a']);
});

test('every workload is exactly one host’s, shares are even, and a host that leaves moves only its own', () => {
  const hosts = ['h1', 'h2', 'h3', 'h4'];
  const shares = new Map(hosts.map((host) => [host, 0]));
  for (let n = 0; n < 1_000; n += 1) {
    const owners = hosts.filter((host) => isOwnWorkload(`app${n}`, host, hosts));
    assert.equal(owners.length, 1);
    const [owner] = owners;
    assert.ok(owner !== undefined);
    shares.set(owner, (shares.get(owner) ?? 0) + 1);
    const left = hosts.filter((host) => host !== 'h4');
    if (owner !== 'h4') assert.ok(isOwnWorkload(`app${n}`, owner, left));
  }
  for (const share of shares.values()) assert.ok(share > 150 && share < 350, `a share of ${share}`);
  assert.equal(isOwnWorkload('app', 'elsewhere', hosts), true);
});

test('a host is lost after its grace; most hosts at once only after the hold; the last one never', () => {
  const pace = { graceMs: 10, holdMs: 100 };
  const missing = new Map([['h1', 0]]);
  assert.deepEqual([...judgeLosses({ ...pace, missingSince: missing, present: 2, now: 9 }).lost], []);
  assert.equal(judgeLosses({ ...pace, missingSince: missing, present: 2, now: 9 }).nextAt, 10);
  assert.deepEqual([...judgeLosses({ ...pace, missingSince: missing, present: 1, now: 10 }).lost], ['h1']);
  const most = new Map([
    ['h1', 0],
    ['h2', 0],
  ]);
  assert.deepEqual([...judgeLosses({ ...pace, missingSince: most, present: 1, now: 99 }).lost], []);
  assert.deepEqual([...judgeLosses({ ...pace, missingSince: most, present: 1, now: 100 }).lost], ['h1', 'h2']);
  assert.deepEqual([...judgeLosses({ ...pace, missingSince: most, present: 0, now: 1_000 }).lost], []);
});

test('a host is missed from when it was first missed, and forgotten when it is back or has no claims', () => {
  const claims = new Map([
    ['h1', 1],
    ['h2', 1],
  ]);
  const first = trackMissing(new Map(), { hosts: new Map([['h2', 1]]), claims }, 5);
  assert.deepEqual([...first], [['h1', 5]]);
  assert.deepEqual(
    [...trackMissing(first, { hosts: new Map(), claims }, 9)],
    [
      ['h1', 5],
      ['h2', 9],
    ],
  );
  assert.deepEqual([...trackMissing(first, { hosts: new Map([['h1', 1]]), claims: new Map([['h1', 1]]) }, 9)], []);
});
