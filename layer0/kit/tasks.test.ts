import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { FlynnError } from './errors.ts';
import { silentLogger } from './log.ts';
import { TaskGroup, forever } from './tasks.ts';

const untilAborted = async (signal: AbortSignal) => {
  if (!signal.aborted) await once(signal, 'abort');
};

test('the first failure aborts the siblings, and done tells it once they have ended', async () => {
  const tasks = new TaskGroup();
  let hasSiblingEnded = false;
  tasks.run('sibling', async (signal) => {
    await untilAborted(signal);
    await new Promise((resolve) => setImmediate(resolve));
    hasSiblingEnded = true;
    throw new Error('a consequence of the abort');
  });
  tasks.run('failing', async () => {
    throw new FlynnError('conflict', 'the lease was lost');
  });
  await assert.rejects(tasks.done(), /the lease was lost/);
  assert.ok(hasSiblingEnded);
  assert.equal(tasks.signal.aborted, true);
});

test('stop aborts, waits for every task, and what they throw then is not a failure', async () => {
  const tasks = new TaskGroup();
  tasks.run('one', untilAborted);
  tasks.run('two', async (signal) => {
    await untilAborted(signal);
    signal.throwIfAborted();
  });
  assert.deepEqual(tasks.running, ['one', 'two']);
  await tasks.stop();
  assert.deepEqual(tasks.running, []);
  await tasks.done();
});

test('tasks that end by themselves leave the group alive', async () => {
  await using tasks = new TaskGroup();
  tasks.run('short', async () => undefined);
  await tasks.done();
  assert.equal(tasks.signal.aborted, false);
});

test('the signal of a parent stops the group, and a task started after the end does not run', async () => {
  const parent = new AbortController();
  const tasks = new TaskGroup({ signal: parent.signal });
  tasks.run('one', untilAborted);
  parent.abort();
  await tasks.done();
  tasks.run('late', async () => assert.fail('it ran'));
  await tasks.done();
});

test('forever repeats a step, survives its failures, and returns on abort', async () => {
  const stop = new AbortController();
  let calls = 0;
  await forever(
    'step',
    async () => {
      calls += 1;
      if (calls === 2) throw new Error('a hiccup');
      if (calls === 4) stop.abort();
    },
    { signal: stop.signal, log: silentLogger(), minMs: 1, maxMs: 1 },
  );
  assert.equal(calls, 4);
});

test('forever returns from its pause when it is aborted', async () => {
  const stop = new AbortController();
  const running = forever('step', () => Promise.reject(new Error('always')), {
    signal: stop.signal,
    log: silentLogger(),
    minMs: 60_000,
    maxMs: 60_000,
  });
  await new Promise((resolve) => setImmediate(resolve));
  stop.abort();
  await running;
});

test('forever ends with a failure that trying again does not mend', async () => {
  const { signal } = new AbortController();
  const last = new Error('for good');
  let calls = 0;
  const step = async () => {
    calls += 1;
    throw calls === 2 ? last : new Error('a hiccup');
  };
  const isFinal = (error: unknown) => error === last;
  await assert.rejects(forever('step', step, { signal, log: silentLogger(), minMs: 1, maxMs: 1, isFinal }), last);
  assert.equal(calls, 2);
});
