import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { hasCode } from '@flynn/kit/errors';
import { operationStates } from '../model.ts';
import { advance, checkHeld, hasOperationEnded } from './state.ts';
import type { OperationEvent, OperationState, OperationStatus } from './state.ts';

const at = (ms: number): string => new Date(ms).toISOString();
const runner = { runnerId: 'r1', attempt: 1 };
const held = { ...runner, assignedAt: at(1) };

const loss = { at: at(4_000), runnerId: 'r1', hasRun: false };

const statuses: Record<OperationState, OperationStatus> = {
  queued: { state: 'queued', output: {}, expiresAt: at(4_000) },
  waiting: { state: 'waiting', output: {}, ...held, expiresAt: at(4_000) },
  running: { state: 'running', output: {}, ...held, startedAt: at(2), heartbeatAt: 2 },
  complete: { state: 'complete', output: { a: 'b' }, ...held, startedAt: at(2), endedAt: at(3) },
  failed: { state: 'failed', output: {}, ...held, startedAt: at(2), endedAt: at(3), error: 'no' },
  cancelled: { state: 'cancelled', output: {}, ...held, endedAt: at(3), error: 'it was cancelled' },
};

const events = {
  assign: { type: 'assign', runnerId: 'r1' },
  acknowledge: { type: 'acknowledge', ...runner },
  'acknowledge of another': { type: 'acknowledge', runnerId: 'r2', attempt: 1 },
  'acknowledge too late': { type: 'acknowledge', runnerId: 'r1', attempt: 0 },
  decline: { type: 'decline', ...runner },
  'decline of another': { type: 'decline', runnerId: 'r2', attempt: 1 },
  'hand over': { type: 'hand over', ...runner, told: { stdout: 2, stderr: 1 } },
  'hand over of another': { type: 'hand over', runnerId: 'r2', attempt: 1 },
  'hand over too late': { type: 'hand over', runnerId: 'r1', attempt: 0 },
  unacknowledged: { type: 'unacknowledged', attempt: 1 },
  beat: { type: 'beat', runnerId: 'r1' },
  'beat of another': { type: 'beat', runnerId: 'r2' },
  'finish well': { type: 'finish', runnerId: 'r1', outcome: { state: 'complete', output: { c: 'd' } } },
  'finish badly': { type: 'finish', runnerId: 'r1', outcome: { state: 'failed', error: 'no' } },
  'finish as cancelled': { type: 'finish', runnerId: 'r1', outcome: { state: 'cancelled', error: 'stopped' } },
  'finish of another': { type: 'finish', runnerId: 'r2', outcome: { state: 'complete' } },
  silence: { type: 'silence', reason: 'heartbeat timeout' },
  'silence about a build': { type: 'silence', reason: 'heartbeat timeout', loss },
  'silence about an attempt before': { type: 'silence', reason: 'heartbeat timeout', attempt: 0, loss },
  'finish of a build that was lost': {
    type: 'finish',
    runnerId: 'r1',
    outcome: { state: 'failed', error: 'no' },
    loss,
  },
  cancel: { type: 'cancel', isForced: false, reason: 'it was cancelled' },
  force: { type: 'cancel', isForced: true, reason: 'it was cancelled by force' },
  expire: { type: 'expire', expiresAt: at(4_000) },
  'move expiry': { type: 'move expiry', expiresAt: at(9_000) },
  abandon: { type: 'abandon', reason: 'the build before it failed' },
} as const satisfies Record<string, OperationEvent>;

type Name = keyof typeof events;
/** `=`: it stays as it is. `!`: refused. `marked`: it runs on, marked to be stopped. */
type Expected = OperationState | '=' | '!' | 'marked';

/** Every event in every state: queued, waiting, running, complete, failed, cancelled. */
const table: Record<Name, readonly Expected[]> = {
  assign: ['waiting', '!', '!', '!', '!', '!'],
  acknowledge: ['!', 'running', '=', '!', '!', '!'],
  'acknowledge of another': ['!', '!', '!', '!', '!', '!'],
  'acknowledge too late': ['!', '!', '!', '!', '!', '!'],
  decline: ['!', 'queued', '!', '!', '!', '!'],
  'decline of another': ['!', '!', '!', '!', '!', '!'],
  'hand over': ['!', '!', 'queued', '!', '!', '!'],
  'hand over of another': ['!', '!', '!', '!', '!', '!'],
  'hand over too late': ['!', '!', '!', '!', '!', '!'],
  unacknowledged: ['=', 'queued', '=', '=', '=', '='],
  beat: ['!', '!', 'running', '!', '!', '!'],
  'beat of another': ['!', '!', '!', '!', '!', '!'],
  'finish well': ['!', '!', 'complete', '=', '!', '!'],
  'finish badly': ['!', '!', 'failed', '!', '=', '!'],
  'finish as cancelled': ['!', '!', 'cancelled', '!', '!', '='],
  'finish of another': ['!', '!', '!', '!', '!', '!'],
  silence: ['=', '=', 'failed', '=', '=', '='],
  'silence about a build': ['=', '=', 'queued', '=', '=', '='],
  'silence about an attempt before': ['=', '=', '=', '=', '=', '='],
  'finish of a build that was lost': ['!', '!', 'queued', '!', '=', '!'],
  cancel: ['cancelled', 'marked', 'marked', '=', '=', '='],
  force: ['cancelled', 'cancelled', 'cancelled', '=', '=', '='],
  expire: ['failed', 'failed', '=', '=', '=', '='],
  'move expiry': ['queued', 'waiting', '=', '=', '=', '='],
  abandon: ['cancelled', 'cancelled', 'cancelled', '=', '=', '='],
};

const names = Object.keys(events) as Name[];

for (const name of names) {
  test(`${name}: in every state it goes where the table says, or is refused with the reason`, () => {
    for (const [index, state] of operationStates.entries()) {
      const status = statuses[state];
      const step = (): OperationStatus => advance({ id: 'o', status }, events[name], 5_000);
      const expected = table[name][index] ?? '!';
      if (expected === '!') {
        assert.throws(step, (error) => hasCode(error, 'conflict') && error.message.includes('operation o'), state);
      } else if (expected === '=') assert.equal(step(), status, state);
      else if (expected === 'marked') assert.deepEqual(step(), { ...status, isCancelRequested: true }, state);
      else assert.equal(step().state, expected, state);
    }
  });
}

test('each edge notes what people and runners need: who, how often, when, why', () => {
  const step = (state: OperationState, name: Name): OperationStatus =>
    advance({ id: 'o', status: statuses[state] }, events[name], 5_000);
  assert.deepEqual(step('queued', 'assign'), {
    ...statuses.queued,
    state: 'waiting',
    runnerId: 'r1',
    attempt: 1,
    assignedAt: at(5_000),
  });
  assert.deepEqual(step('waiting', 'acknowledge'), {
    ...statuses.waiting,
    state: 'running',
    startedAt: at(5_000),
    heartbeatAt: 5_000,
  });
  assert.deepEqual(step('waiting', 'decline'), { ...statuses.queued, attempt: 1 });
  assert.deepEqual(step('waiting', 'unacknowledged'), { ...statuses.queued, attempt: 1 });
  const complete = step('running', 'finish well');
  assert.deepEqual([complete.output, complete.endedAt, complete.heartbeatAt], [{ c: 'd' }, at(5_000), undefined]);
  assert.equal(step('running', 'silence').error, 'heartbeat timeout');
  assert.match(step('queued', 'expire').error ?? '', /it expired at .*: no runner had taken it/);
  assert.match(step('waiting', 'expire').error ?? '', /it expired at .*: r1 had not begun it/);
});

test('what is to be stopped is not given to anybody again when its runner declines it', () => {
  const status = { ...statuses.waiting, isCancelRequested: true };
  for (const name of ['decline', 'unacknowledged'] as const) {
    const next = advance({ id: 'o', status }, events[name], 5_000);
    assert.deepEqual([next.state, next.error, next.isCancelRequested], ['cancelled', 'it was cancelled', undefined]);
  }
  const running = advance({ id: 'o', status }, events.acknowledge, 5_000);
  assert.deepEqual([running.state, running.isCancelRequested], ['running', true], 'its runner is told when it begins');
});

test('a runner that was given the same operation again cannot acknowledge by the first attempt', () => {
  let status = statuses.queued;
  const go = (event: OperationEvent): OperationStatus => (status = advance({ id: 'o', status }, event, 1));
  go(events.assign);
  go(events.unacknowledged);
  go(events.assign);
  assert.throws(() => go({ type: 'acknowledge', runnerId: 'r1', attempt: 1 }), /operation o is waiting/);
  assert.equal(go({ type: 'acknowledge', runnerId: 'r1', attempt: 2 }).state, 'running');
});

test('only who runs it holds it', () => {
  checkHeld({ id: 'o', status: statuses.running }, 'r1');
  assert.throws(() => checkHeld({ id: 'o', status: statuses.running }, 'r2'), /is run by r1, not by r2: stop working/);
  assert.throws(() => checkHeld({ id: 'o', status: statuses.waiting }, 'r1'), /is waiting: say first that you begin/);
  assert.throws(() => checkHeld({ id: 'o', status: statuses.failed }, 'r1'), /is failed: no: stop working on it/);
});

test('whatever happens in whatever order, what has ended stays, and it runs for one runner only', () => {
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...names), { maxLength: 40 }), (order) => {
      let status: OperationStatus = { state: 'queued', output: {} };
      for (const [index, name] of order.entries()) {
        const before = status;
        try {
          status = advance({ id: 'o', status }, events[name], index);
        } catch (error) {
          assert.ok(hasCode(error, 'conflict'));
        }
        if (hasOperationEnded(before.state)) assert.equal(status, before);
        if (before.state === 'running' && status.state === 'running') assert.equal(status.runnerId, before.runnerId);
        if (status.state === 'queued') assert.equal(status.runnerId, undefined);
        if (hasOperationEnded(status.state)) assert.ok(status.endedAt !== undefined);
      }
    }),
  );
});

test('a build that was lost is begun again as if it had not begun, unless it is to be stopped, or was lost too often', () => {
  const lost = (status: OperationStatus): OperationStatus =>
    advance({ id: 'o', status }, { type: 'silence', reason: 'heartbeat timeout', loss }, 5_000);
  const running = { ...statuses.running, expiresAt: at(4_000) };
  assert.deepEqual(lost(running), { state: 'queued', output: {}, attempt: 1, losses: [loss] });
  const stopped = lost({ ...running, isCancelRequested: true });
  assert.deepEqual([stopped.state, stopped.error], ['cancelled', 'it was cancelled']);
  assert.equal(lost({ ...running, losses: [loss] }).state, 'queued');
  const last = lost({ ...running, losses: [loss, loss] });
  assert.equal(last.state, 'failed');
  assert.match(
    last.error ?? '',
    /^the runner r1 that saw to it was lost, and it had been begun again 2 times: push again$/,
  );
});

test('what its runner gave back is queued with where that was, told twice or once, and is given back five times at most', () => {
  const event = events['hand over'];
  const running = { ...statuses.running, expiresAt: at(4_000) };
  const given = advance({ id: 'o', status: running }, event, 5_000);
  const handover = { at: at(5_000), ...runner, told: event.told };
  assert.deepEqual(given, { state: 'queued', output: {}, attempt: 1, handover, handovers: 1 });
  assert.equal(advance({ id: 'o', status: given }, event, 6_000), given);
  const stopped = advance({ id: 'o', status: { ...running, isCancelRequested: true } }, event, 5_000);
  assert.equal(stopped.state, 'cancelled');
  const fifth = { ...running, handovers: 4 };
  assert.equal(advance({ id: 'o', status: fifth }, event, 5_000).handovers, 5);
  const status = { ...running, handovers: 5 };
  assert.throws(() => advance({ id: 'o', status }, event, 5_000), /it was given back 5 times: it is not any more/);
  const lost = advance(
    { id: 'o', status: { ...running, handover, handovers: 1 } },
    events['silence about a build'],
    6_000,
  );
  assert.deepEqual([lost.handover, lost.handovers, lost.losses?.length], [undefined, 1, 1]);
});
