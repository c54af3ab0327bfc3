import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { FlynnError, hasCode } from './errors.ts';
import { SharedWork } from './shared-work.ts';

test('work that is under way is done once for all who ask, and another time for who asks later', async () => {
  const shared = new SharedWork<number>();
  const gate = Promise.withResolvers<void>();
  let runs = 0;
  const work = async (): Promise<number> => {
    runs += 1;
    await gate.promise;
    return runs;
  };
  const asked = [shared.run('a', work), shared.run('a', work), shared.run('b', work)];
  gate.resolve();
  assert.deepEqual(await Promise.all(asked), [2, 2, 2]);
  assert.equal(await shared.run('a', work), 3);
});

test('what fails is told to all who wait, and tried anew for who asks later', async () => {
  const shared = new SharedWork<string>();
  const failing = () => Promise.reject(new FlynnError('invalid', 'broken'));
  for (const asked of [shared.run('a', failing), shared.run('a', failing)]) await assert.rejects(asked, /broken/);
  assert.equal(await shared.run('a', async () => 'well'), 'well');
});

test('it goes on while somebody waits, and is given up when the last has left', async () => {
  const shared = new SharedWork<string>();
  const begun: AbortSignal[] = [];
  const ended = Promise.withResolvers<void>();
  const work = async (signal: AbortSignal): Promise<string> => {
    begun.push(signal);
    await once(signal, 'abort');
    await ended.promise;
    throw signal.reason;
  };
  const [first, second] = [new AbortController(), new AbortController()];
  const asked = [first, second].map(({ signal }) => shared.run('a', work, { signal }));
  first.abort();
  await assert.rejects(asked[0] ?? Promise.resolve(), (error) => hasCode(error, 'cancelled'));
  assert.equal(begun[0]?.aborted, false);
  second.abort();
  await assert.rejects(asked[1] ?? Promise.resolve(), (error) => hasCode(error, 'cancelled'));
  assert.equal(begun[0]?.aborted, true);

  // Who asks while it comes to its end has another, after that.
  let isBegun = false;
  const next = shared.run('a', async () => {
    isBegun = true;
    return 'next';
  });
  await new Promise(setImmediate);
  assert.equal(isBegun, false);
  ended.resolve();
  assert.equal(await next, 'next');
});

test('one that gave up before its work began never begins it', async () => {
  const shared = new SharedWork<string>();
  const gate = Promise.withResolvers<string>();
  const leaving = new AbortController();
  const first = shared.run('a', () => gate.promise, { signal: leaving.signal });
  leaving.abort();
  await assert.rejects(first, (error) => hasCode(error, 'cancelled'));
  const impatient = new AbortController();
  let isBegun = false;
  const second = shared.run(
    'a',
    async () => {
      isBegun = true;
      return '';
    },
    { signal: impatient.signal },
  );
  impatient.abort();
  await assert.rejects(second, (error) => hasCode(error, 'cancelled'));
  gate.resolve('');
  await new Promise(setImmediate);
  assert.equal(isBegun, false);
});
