import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { setImmediate as settle } from 'node:timers/promises';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { renewalPace } from './etcd-lease.ts';
import { EtcdMembers } from './etcd-members.ts';
import type { Member } from './etcd-members.ts';
import { askInTurn } from './etcd-turns.ts';

const endpoints = ['http://192.0.2.1:2379', 'http://192.0.2.2:2379', 'http://192.0.2.3:2379'];
/** A host's lease, the shortest that guards anything, and when its fence falls after the last renewal. */
const ttlMs = 7_000;
const fenceAfterMs = 5_000;
const pace = renewalPace(ttlMs);
const signal = new AbortController().signal;

/** Nobody waits and nothing is late: timers and clock go on only by `advance`. */
class Time {
  readonly #t: TestContext;
  nowMs = 0;

  constructor(t: TestContext) {
    this.#t = t;
    t.mock.timers.enable({ apis: ['setTimeout'] });
    t.mock.method(performance, 'now', () => this.nowMs);
  }

  async advance(ms: number): Promise<void> {
    for (const endMs = this.nowMs + ms; this.nowMs < endMs;) {
      this.nowMs += 10;
      this.#t.mock.timers.tick(10);
      await settle();
    }
  }

  wait(ms: number): Promise<void> {
    return new Promise((resolve) => void setTimeout(resolve, ms));
  }
}

const timeout = () => new FlynnError('timeout', 'nothing was heard');
const noLeader = () => new FlynnError('unavailable', 'no leader');

type Behaviour = (member: Member) => 'answers' | 'hangs' | 'refuses';

/** Whoever is asked says what it does at that moment, 30 ms later; what hangs is given up as a renewal is. */
function asked(time: Time, behaviour: Behaviour) {
  const log: { endpoint: string; atMs: number }[] = [];
  const ask = async (member: Member): Promise<{ endpoint: string; sentMs: number }> => {
    const sentMs = time.nowMs;
    log.push({ endpoint: member.endpoint, atMs: sentMs });
    const does = behaviour(member);
    await time.wait(does === 'hangs' ? pace.giveUpMs : 30);
    if (does === 'hangs') throw timeout();
    if (does === 'refuses') throw noLeader();
    return { endpoint: member.endpoint, sentMs };
  };
  return { ask, log };
}

function openMembers(t: TestContext): EtcdMembers {
  const members = new EtcdMembers(endpoints);
  t.after(() => members.close());
  return members;
}

const renewal = { what: 'renewing', pace, canRepeat: () => true, signal };

// An election may take two seconds; on a busy machine it takes twice as long.
for (const electedMs of [2_000, 3_900]) {
  for (const first of [0, 1, 2]) {
    for (const meanwhile of ['hangs', 'refuses'] as const) {
      test(`no lease ends with a leader that stands still for ${electedMs} ms: it is asked as number ${first}, and a follower ${meanwhile}`, async (t) => {
        const time = new Time(t);
        const members = openMembers(t);
        const frozen = members.order()[first]?.endpoint;
        const { ask, log } = asked(time, ({ endpoint }) => {
          if (endpoint === frozen) return 'hangs';
          return time.nowMs < electedMs ? meanwhile : 'answers';
        });
        // The worst moment: it stood still just after it had answered a renewal.
        await time.advance(pace.everyMs);
        const renewed = askInTurn({ ...renewal, members, ask, untilMs: ttlMs });
        const soonMs = 2 * pace.stepMs + 50;
        await time.advance(electedMs + soonMs - time.nowMs);
        const { sentMs } = await Promise.race([
          renewed,
          settle().then(() => assert.fail('it was not renewed in time')),
        ]);
        assert.ok(sentMs >= electedMs && time.nowMs < fenceAfterMs, `sent at ${sentMs} ms`);
        const steps = (sentMs - pace.everyMs) / pace.stepMs;
        for (const endpoint of endpoints) {
          const times = log.filter((one) => one.endpoint === endpoint).length;
          assert.ok(times >= Math.floor(steps / 3), `${endpoint} was asked ${times} times`);
        }
        // After a refusal sooner than after silence; but nobody is asked without a pause.
        assert.ok(log.length <= 2 * steps + 3, `asked ${log.length} times`);
        await time.advance(ttlMs);
        assert.notEqual(members.current.endpoint, frozen);
      });
    }
  }
}

test('a member that stands still costs one step, and is left', async (t) => {
  const time = new Time(t);
  const members = openMembers(t);
  const { current } = members;
  const { ask, log } = asked(time, ({ endpoint }) => (endpoint === current.endpoint ? 'hangs' : 'answers'));
  const first = askInTurn({ ...renewal, members, ask, untilMs: ttlMs });
  await time.advance(pace.stepMs + 40);
  assert.equal((await first).sentMs, pace.stepMs);
  assert.equal(log.length, 2);
  assert.equal(members.current, current, 'a moment is no reason to open every watch again');
  await time.advance(pace.silentMs);
  assert.ok(current.left.aborted);
  const second = askInTurn({ ...renewal, members, ask, untilMs: time.nowMs + ttlMs });
  await time.advance(40);
  await second;
  assert.equal(log.length, 3);
});

test('a member that is slow and nothing worse is not left', async (t) => {
  const time = new Time(t);
  const members = openMembers(t);
  const { current } = members;
  const ask = async (member: Member) => {
    await time.wait(member.endpoint === current.endpoint ? pace.silentMs - 50 : 30);
    return member.endpoint;
  };
  const answer = askInTurn({ ...renewal, members, ask, untilMs: ttlMs });
  await time.advance(2 * pace.giveUpMs);
  assert.notEqual(await answer, current.endpoint);
  assert.equal(members.current, current);
});

test('what hung is no news of a member that has answered since', async (t) => {
  const time = new Time(t);
  const members = openMembers(t);
  const { current } = members;
  await time.advance(10);
  members.answered(current);
  members.failed(current, timeout(), 0);
  assert.equal(members.current, current);
  members.failed(current, timeout(), time.nowMs + 1);
  assert.notEqual(members.current, current);
});

test('one that hangs is gone back to only after those that say they cannot', (t) => {
  const time = new Time(t);
  const members = openMembers(t);
  const frozen = members.current.endpoint;
  members.failed(members.current, timeout(), 1);
  for (let turn = 0; turn < 6; turn += 1) {
    time.nowMs += 100;
    members.failed(members.current, noLeader(), time.nowMs);
    assert.notEqual(members.current.endpoint, frozen);
  }
});

test('what may be done once is asked of one member after the other, and not again after a failure that may have done it', async (t) => {
  const time = new Time(t);
  const members = openMembers(t);
  const { ask, log } = asked(time, () => (log.length <= 2 ? 'refuses' : 'hangs'));
  const writing = askInTurn({
    ...renewal,
    members,
    ask,
    untilMs: 5_000,
    pace: { maxPauseMs: 500, silentMs: 1_000 },
    canRepeat: (error) => hasCode(error, 'unavailable'),
  });
  const refused = assert.rejects(writing, (error) => hasCode(error, 'timeout'));
  await time.advance(5_000);
  await refused;
  assert.equal(new Set(log.map(({ endpoint }) => endpoint)).size, 3);
  assert.equal(log.length, 3);
});

for (const once of [false, true]) {
  const told = once ? 'not told where it may have been done' : 'told';
  test(`what a member said before a last turn that had no time left is ${told}`, async (t) => {
    const time = new Time(t);
    const members = openMembers(t);
    let count = 0;
    const asking = askInTurn({
      ...renewal,
      members,
      ask: async () => {
        count += 1;
        await time.wait(30);
        throw count < 3 ? new FlynnError('unauthenticated', 'unknown authority') : timeout();
      },
      untilMs: 5_000,
      pace: { maxPauseMs: 500, silentMs: 1_000, ...(once ? {} : { stepMs: 500 }) },
      canRepeat: (error) => hasCode(error, 'unauthenticated'),
    });
    const refused = assert.rejects(asking, (error) => hasCode(error, once ? 'timeout' : 'unauthenticated'));
    await time.advance(5_000);
    await refused;
    assert.equal(count, 3);
  });
}

test('nobody is asked after the end, nor after an abort', async (t) => {
  const time = new Time(t);
  const members = openMembers(t);
  const { ask, log } = asked(time, () => 'hangs');
  const late = assert.rejects(askInTurn({ ...renewal, members, ask, untilMs: 1_000 }), (error) =>
    hasCode(error, 'timeout'),
  );
  await time.advance(1_000 + pace.giveUpMs);
  await late;
  assert.equal(log.length, Math.ceil(1_000 / pace.stepMs));
  const aborting = new AbortController();
  const cancelled = assert.rejects(
    askInTurn({ ...renewal, members, ask, untilMs: time.nowMs + ttlMs, signal: aborting.signal }),
    (error) => hasCode(error, 'cancelled'),
  );
  aborting.abort();
  await cancelled;
  const before = log.length;
  await time.advance(2 * ttlMs);
  assert.equal(log.length, before);
});
