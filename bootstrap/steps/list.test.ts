import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { runSteps } from './list.ts';

/** Ends steps from within one, as somebody does who does not want to wait for it. */
function stepsOf(options: { isWhole: boolean }) {
  const ending = new AbortController();
  const under = Promise.withResolvers<void>();
  const done: string[] = [];
  const steps = [
    {
      title: 'one',
      isWhole: options.isWhole,
      run: async () => {
        ending.abort(new FlynnError('cancelled', 'it was ended'));
        if (options.isWhole) queueMicrotask(under.resolve);
        await under.promise;
        done.push('one');
      },
    },
    { title: 'two', run: async () => void done.push('two') },
  ];
  return { steps, done, signal: ending.signal, finish: under.resolve };
}

test('steps that are ended leave the one under way behind, and begin none after it', async () => {
  const { steps, done, signal, finish } = stepsOf({ isWhole: false });
  await assert.rejects(
    runSteps(steps, signal),
    (error) => hasCode(error, 'cancelled') && error.message === 'it was ended',
  );
  assert.deepEqual(done, []);
  finish();
});

test('a step that has to be whole comes to its end first', async () => {
  const { steps, done, signal } = stepsOf({ isWhole: true });
  await assert.rejects(runSteps(steps, signal), (error) => hasCode(error, 'cancelled'));
  assert.deepEqual(done, ['one']);
});
