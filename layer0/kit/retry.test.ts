import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FlynnError, hasCode } from './errors.ts';
import { backoffMs, raceAbort, retry, waitFor, withDeadline } from './retry.ts';

const never = () => new Promise<never>(() => undefined);

test('a transient failure is tried again until it succeeds', async () => {
  let calls = 0;
  const answer = await retry(
    async () => {
      calls += 1;
      if (calls < 3) throw new FlynnError('unavailable', 'not yet');
      return 'here';
    },
    { what: 'the service', deadlineMs: 60_000, minMs: 1 },
  );
  assert.deepEqual({ answer, calls }, { answer: 'here', calls: 3 });
});

test('a failure that will not go away by itself is thrown at once', async () => {
  let calls = 0;
  const trying = retry(
    async () => {
      calls += 1;
      throw new FlynnError('invalid', 'wrong');
    },
    { what: 'x', deadlineMs: 60_000 },
  );
  await assert.rejects(trying, (error) => hasCode(error, 'invalid'));
  assert.equal(calls, 1);
});

test('what is retryable can be said by the caller', async () => {
  let calls = 0;
  await retry(
    async () => {
      calls += 1;
      if (calls === 1) throw new Error('flaky');
    },
    { what: 'x', deadlineMs: 60_000, minMs: 1, isRetryable: () => true },
  );
  assert.equal(calls, 2);
});

test('at the deadline retry says what it waited for, with the last error as cause', async () => {
  const last = new FlynnError('unavailable', 'nobody home');
  const trying = retry(
    async () => {
      throw last;
    },
    { what: 'the controller', deadlineMs: 60, minMs: 1, maxMs: 5 },
  );
  await assert.rejects(trying, (error) => {
    assert.ok(hasCode(error, 'timeout'));
    assert.equal(error.message, 'waited 0.06 s for the controller: nobody home');
    assert.equal(error.cause, last);
    return true;
  });
});

test('an attempt that hangs does not outlive the deadline, and its signal aborts', async () => {
  let seen: AbortSignal | undefined;
  const trying = retry(
    (signal) => {
      seen = signal;
      return never();
    },
    { what: 'x', deadlineMs: 30 },
  );
  await assert.rejects(trying, (error) => hasCode(error, 'timeout'));
  assert.equal(seen?.aborted, true);
});

test('the signal of the caller ends retry and waitFor as cancelled', async () => {
  const options = { what: 'x', deadlineMs: 60_000, signal: AbortSignal.abort() };
  await assert.rejects(retry(never, options), (error) => hasCode(error, 'cancelled'));
  const during = new AbortController();
  const waiting = waitFor(() => false, { ...options, signal: during.signal, intervalMs: 60_000 });
  during.abort();
  await assert.rejects(waiting, (error) => hasCode(error, 'cancelled'));
});

test('waitFor polls until there is an answer, and zero and the empty text are answers', async () => {
  let calls = 0;
  const probe = () => {
    calls += 1;
    if (calls === 2) throw new Error('not yet');
    return calls === 4 ? 'ready' : calls === 1 ? false : undefined;
  };
  assert.equal(await waitFor(probe, { what: 'x', deadlineMs: 60_000, intervalMs: 1 }), 'ready');
  assert.equal(await waitFor(() => 0, { what: 'x', deadlineMs: 60_000 }), 0);
  assert.equal(await waitFor(async () => '', { what: 'x', deadlineMs: 60_000 }), '');
});

test('waitFor that times out says for what it waited and why the last probe failed', async () => {
  const failing = waitFor(() => Promise.reject(new Error('refused')), {
    what: 'port 80',
    deadlineMs: 40,
    intervalMs: 5,
  });
  await assert.rejects(failing, (error) => {
    assert.ok(hasCode(error, 'timeout'));
    assert.equal(error.message, 'waited 0.04 s for port 80: refused');
    assert.ok(error.cause instanceof Error);
    return true;
  });
  const hanging = waitFor(never, { what: 'a probe that hangs', deadlineMs: 40 });
  await assert.rejects(hanging, /waited 0.04 s for a probe that hangs$/);
});

test('a deadline aborts with TimeoutError, or with the reason of the signal it extends', async () => {
  const deadline = withDeadline(1);
  await assert.rejects(raceAbort(never(), deadline), (error) => hasCode(error, 'timeout'));
  const reason = new FlynnError('conflict', 'lost');
  assert.equal(withDeadline(1000, AbortSignal.abort(reason)).reason, reason);
});

test('pauses double up to the limit, and jitter stays in their upper half', () => {
  const limits = { minMs: 100, maxMs: 1000 };
  const most = [0, 1, 2, 3, 4, 2000].map((attempt) => backoffMs(attempt, { ...limits, random: () => 1 }));
  assert.deepEqual(most, [100, 200, 400, 800, 1000, 1000]);
  assert.equal(backoffMs(3, { ...limits, random: () => 0 }), 400);
});
