import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FlynnError } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { DeploymentWait } from './deployment-wait.ts';

const { signal } = new AbortController();
const app = { id: 'a' };

function setUp(answers: (boolean | FlynnError)[]) {
  const wait = new DeploymentWait({ log: silentLogger(), lookMs: 1 });
  let told = 0;
  const platform = {
    async isDeploying() {
      const answer = answers.shift() ?? assert.fail('nobody asks once more');
      if (typeof answer !== 'boolean') throw answer;
      return answer;
    },
  };
  const over = (isCrowded: () => boolean, limited = signal) =>
    wait.over(app, platform, { isCrowded, onWait: () => (told += 1), signal: limited });
  return { wait, over, told: () => told };
}

test('a push waits for a deployment of its app where few places are left, and says so once', async () => {
  const { wait, over, told } = setUp([true, true, false]);
  const waiting = over(() => true);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(wait.isWaiting('a'), true);
  await waiting;
  assert.deepEqual([told(), wait.isWaiting('a')], [1, false]);
});

test('it waits no longer than few are left, and nobody is asked where there are enough', async () => {
  let looks = 0;
  await setUp([true]).over(() => (looks += 1) < 2);
  await setUp([]).over(() => false);
});

test('where it cannot be told it goes on; who leaves waits no more', async () => {
  await setUp([true, new FlynnError('denied', 'no')]).over(() => true);
  const leaving = new AbortController();
  const { wait, over } = setUp(Array.from({ length: 1_000_000 }, () => true));
  const waiting = over(() => true, leaving.signal);
  leaving.abort(new FlynnError('cancelled', 'the client went away'));
  await assert.rejects(waiting, /the client went away/);
  assert.equal(wait.isWaiting('a'), false);
});
