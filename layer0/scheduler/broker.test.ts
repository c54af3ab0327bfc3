import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import { Broker } from './broker.ts';
import type { BrokerOptions } from './broker.ts';
import type { Evaluation } from './evaluation.ts';
import { makeEvaluation } from './evaluations.ts';
import { isOwnWorkload } from './ownership.ts';

let ids = 0;
const newId = () => `i${(ids += 1)}`;
function brokerOf(more: Partial<BrokerOptions> = {}): Broker {
  return new Broker({ isOwn: () => true, newToken: newId, ...more });
}
const evaluationOf = (workloadId: string, createdAt = 0, more: Partial<Evaluation> = {}): Evaluation => ({
  ...makeEvaluation(workloadId, 'workload', { now: createdAt, newId }),
  ...more,
});
const alone = { stale: [], newest: undefined };
/** Takes the next one and says it is done; its workload's id. */
function finish(broker: Broker, now: number): string | undefined {
  const [delivery] = broker.dequeue(now, 1);
  if (delivery === undefined) return undefined;
  assert.notEqual(broker.ack(delivery.evaluation.id, delivery.token, now), false);
  return delivery.evaluation.workloadId;
}
function take(broker: Broker, now: number) {
  const [delivery] = broker.dequeue(now, 1);
  assert.ok(delivery !== undefined);
  return delivery;
}

describe('the broker leaves', () => {
  it('what it cannot plan for to all others, whoever’s it is, for twice as long as what is another’s', () => {
    const broker = brokerOf({ knows: (workloadId) => workloadId !== 'odd', isOwn: (id) => id !== 'other' });
    for (const id of ['odd', 'other', 'own']) broker.enqueue(evaluationOf(id), 0);
    assert.equal(finish(broker, 0), 'own');
    assert.equal(finish(broker, 0), undefined);
    assert.equal(broker.nextAt(0), 5_000);
    assert.equal(finish(broker, 5_000), 'other');
    assert.equal(finish(broker, 5_000), undefined);
    assert.equal(broker.nextAt(5_000), 10_000);
    broker.reassign();
    assert.equal(finish(broker, 9_999), undefined);
    assert.equal(finish(broker, 10_000), 'odd');
  });
  it('what waited for room for a minute to whose it is, if that one wakes it as well', () => {
    const broker = brokerOf({ isOwn: (id) => id === 'own', areWoken: (id) => id !== 'odd' });
    for (const id of ['own', 'other', 'odd']) broker.enqueue(evaluationOf(id, 0, { updatedAt: 0 }), 0);
    assert.deepEqual([finish(broker, 0), finish(broker, 0)], ['own', undefined]);
    assert.deepEqual([finish(broker, 5_000), finish(broker, 59_999)], ['odd', undefined]);
    assert.equal(finish(broker, 60_000), 'other');
  });
  it('such a one behind what is asked of the same workload beside it, whichever came first', () => {
    for (const order of ['woken first', 'woken last', 'woken behind another'] as const) {
      const broker = brokerOf({ isOwn: () => false, areWoken: () => true });
      const woken = evaluationOf('a', 0, { updatedAt: 10 });
      const [before, asked] = [evaluationOf('a', 5), evaluationOf('a', 10)];
      if (order === 'woken behind another') broker.enqueue(before, 10);
      if (order !== 'woken last') broker.enqueue(woken, 10);
      assert.deepEqual(broker.dequeue(10, 1), []);
      assert.equal(broker.isAwaited('a', 10), order === 'woken behind another', 'a minute is no time to wait');
      broker.enqueue(asked, 10);
      if (order === 'woken last') broker.enqueue(woken, 10);
      broker.forget(before.id, 10);
      assert.equal(broker.isAwaited('a', 10), true);
      const [first] = broker.dequeue(5_010, 1);
      assert.equal(first?.evaluation.id, asked.id, order);
    }
  });
});

describe('the broker hands out', () => {
  it('the highest priority first, then the oldest, each once', () => {
    const broker = brokerOf();
    broker.enqueue(evaluationOf('c', 3), 5);
    broker.enqueue(evaluationOf('b', 2), 5);
    broker.enqueue(evaluationOf('low', 1, { priority: 10 }), 5);
    const high = evaluationOf('high', 4, { priority: 90 });
    broker.enqueue(high, 5);
    broker.enqueue(high, 5);
    assert.deepEqual(
      broker.dequeue(5, 10).map(({ evaluation }) => evaluation.workloadId),
      ['high', 'b', 'c', 'low'],
    );
    assert.deepEqual(broker.dequeue(5, 10), []);
    assert.deepEqual(broker.counts(5), { ready: 0, waiting: 0, pending: 0, outstanding: 4 });
  });
  it('the first of several that came at one moment in the order they came', () => {
    const broker = brokerOf();
    for (const id of ['a', 'b', 'c']) broker.enqueue(evaluationOf(id, 1), 1);
    assert.deepEqual(
      broker.dequeue(1, 3).map(({ evaluation }) => evaluation.workloadId),
      ['a', 'b', 'c'],
    );
  });
  it('one of a workload at a time: seven of two workloads are two ready and five behind', () => {
    const broker = brokerOf();
    for (let n = 0; n < 4; n += 1) broker.enqueue(evaluationOf('a', n), 10);
    for (let n = 0; n < 3; n += 1) broker.enqueue(evaluationOf('b', n), 10);
    assert.deepEqual(broker.counts(10), { ready: 2, waiting: 0, pending: 5, outstanding: 0 });
    const first = take(broker, 10);
    const second = take(broker, 10);
    assert.deepEqual(broker.dequeue(10, 5), []);
    const acked = broker.ack(first.evaluation.id, first.token, 10);
    assert.ok(acked !== false);
    assert.deepEqual(
      [acked.stale.map(({ createdAt }) => createdAt), acked.newest?.createdAt],
      [[1, 2], 3],
      'the newest of the three behind sees all that they would have',
    );
    assert.deepEqual(broker.counts(10), { ready: 1, waiting: 0, pending: 2, outstanding: 1 });
    assert.equal(take(broker, 10).evaluation.createdAt, 3);
    assert.notEqual(broker.ack(second.evaluation.id, second.token, 10), false);
  });
  it('a rebalance that came in between before the newest, which it stands for', () => {
    const broker = brokerOf();
    for (const [at, cause] of (['workload', 'rebalance', 'job_ended'] as const).entries()) {
      broker.enqueue(evaluationOf('a', at, { cause }), 10);
    }
    const first = take(broker, 10);
    const acked = broker.ack(first.evaluation.id, first.token, 10);
    assert.ok(acked !== false);
    assert.deepEqual([acked.stale.map(({ cause }) => cause), acked.newest?.cause], [['job_ended'], 'rebalance']);
    assert.equal(take(broker, 10).evaluation.cause, 'rebalance');
    assert.equal(broker.counts(10).pending, 0);
  });
  it('two of eleven flaps of a host: the other nine are cancelled', () => {
    const broker = brokerOf();
    for (let n = 0; n < 11; n += 1) broker.enqueue(evaluationOf('router', n, { cause: 'host_joined' }), n);
    let complete = 0;
    let cancelled = 0;
    for (let [delivery] = broker.dequeue(20, 4); delivery !== undefined; [delivery] = broker.dequeue(20, 4)) {
      const acked = broker.ack(delivery.evaluation.id, delivery.token, 20);
      assert.ok(acked !== false);
      complete += 1;
      cancelled += acked.stale.length;
    }
    assert.deepEqual([complete, cancelled], [2, 9]);
    assert.deepEqual(broker.counts(20), { ready: 0, waiting: 0, pending: 0, outstanding: 0 });
  });
  it('nothing before its time, and then as if it had just come', () => {
    const broker = brokerOf();
    broker.enqueue(evaluationOf('later', 0, { waitUntil: 500 }), 0);
    assert.deepEqual([broker.dequeue(499, 5), broker.nextAt(499)], [[], 500]);
    assert.equal(broker.isAwaited('later', 499), false);
    broker.enqueue(evaluationOf('later', 100), 100);
    assert.equal(broker.isAwaited('later', 100), true);
    const now = take(broker, 100);
    assert.deepEqual(
      [now.evaluation.waitUntil, broker.ack(now.evaluation.id, now.token, 100)],
      [undefined, alone],
      'what is for later stays',
    );
    assert.equal(finish(broker, 500), 'later');
    assert.equal(broker.nextAt(500), undefined);
  });
});

describe('a delivery', () => {
  it('is acknowledged with its token only, once', () => {
    const broker = brokerOf();
    broker.enqueue(evaluationOf('a'), 0);
    const { evaluation, token } = take(broker, 0);
    assert.equal(broker.tokenOf(evaluation.id), token);
    assert.equal(broker.ack(evaluation.id, 'other', 0), false);
    assert.equal(broker.nack(evaluation.id, 'other', 0), false);
    assert.equal(broker.ack('unknown', token, 0), false);
    assert.deepEqual(broker.ack(evaluation.id, token, 0), alone);
    assert.equal(broker.ack(evaluation.id, token, 0), false);
    assert.equal(broker.tokenOf(evaluation.id), undefined);
  });
  it('that is given back comes again with another token after growing pauses, and fails the third time', () => {
    const broker = brokerOf();
    broker.enqueue(evaluationOf('a'), 0);
    const first = take(broker, 0);
    assert.deepEqual(broker.nack(first.evaluation.id, first.token, 0), { kind: 'again', at: 1_000 });
    assert.deepEqual(broker.counts(0), { ready: 0, waiting: 1, pending: 0, outstanding: 0 });
    assert.deepEqual(broker.dequeue(999, 1), []);
    const second = take(broker, 1_000);
    assert.notEqual(second.token, first.token);
    assert.equal(broker.ack(first.evaluation.id, first.token, 1_000), false, 'the old token is void');
    assert.deepEqual(broker.nack(second.evaluation.id, second.token, 1_000), { kind: 'again', at: 21_000 });
    const third = take(broker, 21_000);
    assert.equal(third.attempt, 3);
    assert.deepEqual(broker.nack(third.evaluation.id, third.token, 21_000), {
      kind: 'failed',
      evaluation: first.evaluation,
    });
    assert.deepEqual([broker.has(first.evaluation.id), broker.nextAt(21_000)], [false, undefined]);
  });
  it('may still be done the last time', () => {
    const broker = brokerOf({ deliveryLimit: 2 });
    broker.enqueue(evaluationOf('a'), 0);
    const first = take(broker, 0);
    broker.nack(first.evaluation.id, first.token, 0);
    assert.equal(finish(broker, 1_000), 'a');
  });
  it('that is given back does not hold up what came for its workload meanwhile', () => {
    const broker = brokerOf();
    broker.enqueue(evaluationOf('a', 0), 0);
    const first = take(broker, 0);
    const newer = evaluationOf('a', 1);
    broker.enqueue(newer, 1);
    broker.nack(first.evaluation.id, first.token, 2);
    const next = take(broker, 2);
    assert.equal(next.evaluation.id, newer.id);
    assert.deepEqual(broker.ack(next.evaluation.id, next.token, 2), { stale: [], newest: first.evaluation });
    assert.equal(take(broker, 2).attempt, 2);
  });
  it('of one that is woken meanwhile is followed by another when it is acked, not when it is given back', () => {
    const broker = brokerOf();
    const one = evaluationOf('a');
    broker.enqueue(one, 0);
    const first = take(broker, 0);
    broker.enqueue(one, 0);
    broker.enqueue({ ...one, waiting: 2, updatedAt: 0 }, 0);
    assert.deepEqual(broker.dequeue(0, 1), []);
    assert.deepEqual(broker.ack(one.id, first.token, 0), { stale: [], newest: { ...one, waiting: 2, updatedAt: 0 } });
    const second = take(broker, 0);
    assert.deepEqual([second.evaluation.waiting, second.attempt], [2, 1]);
    broker.enqueue({ ...one, updatedAt: 0 }, 0);
    broker.nack(one.id, second.token, 0);
    const third = take(broker, 1_000);
    broker.enqueue({ ...one, updatedAt: 0 }, 1_000);
    broker.forget(one.id, 1_000);
    assert.deepEqual([broker.ack(one.id, third.token, 1_000), broker.nextAt(1_000)], [alone, undefined], 'it is over');
  });
  it('that is known to be on its way is not given back, however long it takes', () => {
    const broker = brokerOf({ deliveryMs: 100 });
    broker.enqueue(evaluationOf('a'), 0);
    const { evaluation, token } = take(broker, 0);
    for (const at of [100, 250, 400])
      assert.deepEqual(
        broker.expire(at, (id) => id === evaluation.id),
        [],
      );
    assert.equal(broker.nextAt(400), 500);
    assert.deepEqual(broker.dequeue(400, 1), []);
    assert.deepEqual(broker.ack(evaluation.id, token, 400), alone);
  });
  it('of which nothing is heard counts as given back', () => {
    const broker = brokerOf({ deliveryMs: 100 });
    broker.enqueue(evaluationOf('a'), 0);
    const { evaluation, token } = take(broker, 0);
    assert.deepEqual([broker.expire(99), broker.nextAt(99)], [[], 100]);
    assert.deepEqual(broker.expire(100), [{ kind: 'again', at: 1_100 }]);
    assert.equal(broker.ack(evaluation.id, token, 100), false);
    assert.equal(finish(broker, 1_100), 'a');
    assert.deepEqual(broker.expire(10_000), []);
  });
});

describe('what somebody else saw to', () => {
  it('is forgotten, and the next of its workload takes its place', () => {
    const broker = brokerOf();
    const [first, second] = [evaluationOf('a', 0), evaluationOf('a', 1)];
    for (const one of [first, second]) broker.enqueue(one, 1);
    broker.forget(first.id, 1);
    assert.equal(take(broker, 1).evaluation.id, second.id);
    broker.forget('unknown', 1);
  });
  it('stays outstanding until its delivery ends', () => {
    const broker = brokerOf();
    broker.enqueue(evaluationOf('a'), 0);
    const { evaluation, token } = take(broker, 0);
    broker.forget(evaluation.id, 0);
    assert.deepEqual(broker.ack(evaluation.id, token, 0), alone);
  });
  it('leaves nothing behind', () => {
    const broker = brokerOf();
    const all = [0, 1, 2].map((n) => evaluationOf('a', n));
    for (const one of all) broker.enqueue(one, 1);
    for (const { id } of all) broker.forget(id, 1);
    assert.deepEqual(broker.counts(1), { ready: 0, waiting: 0, pending: 0, outstanding: 0 });
    assert.deepEqual([broker.dequeue(1, 5), broker.nextAt(1)], [[], undefined]);
  });
});

describe('what is another scheduler’s', () => {
  it('is left to it for a while, and then taken over', () => {
    const broker = brokerOf({ isOwn: (id) => id === 'own', takeoverMs: 100 });
    for (const id of ['other', 'own']) broker.enqueue(evaluationOf(id), 0);
    assert.deepEqual(
      broker.dequeue(0, 5).map(({ evaluation }) => evaluation.workloadId),
      ['own'],
    );
    assert.deepEqual([broker.dequeue(99, 5), broker.nextAt(99)], [[], 100]);
    assert.equal(finish(broker, 100), 'other');
  });
  it('is taken at once when the shares change', () => {
    let owned = false;
    const broker = brokerOf({ isOwn: () => owned });
    broker.enqueue(evaluationOf('a'), 0);
    assert.deepEqual(broker.dequeue(0, 1), []);
    owned = true;
    broker.reassign();
    assert.equal(finish(broker, 1), 'a');
  });
});

test('a broker made anew of what is stored hands out the same, and knows no old token', () => {
  const stored = [
    evaluationOf('a', 2),
    evaluationOf('b', 1),
    evaluationOf('a', 3),
    evaluationOf('c', 0, { waitUntil: 50 }),
  ];
  const before = brokerOf();
  for (const one of stored) before.enqueue(one, 5);
  const old = take(before, 5);
  const after = brokerOf();
  for (const one of stored) after.enqueue(one, 10);
  assert.equal(after.ack(old.evaluation.id, old.token, 10), false);
  assert.deepEqual([finish(after, 10), finish(after, 10), finish(after, 10)], ['b', 'a', 'a']);
  assert.equal(finish(after, 50), 'c');
});

test('whose a workload is takes few looks, however many hosts there are', () => {
  const hosts = Array.from({ length: 10_000 }, (_, at) => `h${at}`);
  let looks = 0;
  function* looked() {
    for (const host of hosts) {
      looks += 1;
      yield host;
    }
  }
  for (let n = 0; n < 100; n += 1) isOwnWorkload(`app${n}`, 'h77', looked());
  assert.ok(looks < 100 * 300, `${looks} looks`);
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
});
