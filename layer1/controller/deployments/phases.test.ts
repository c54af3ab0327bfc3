import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isLive, isSettled, isWaiting } from './phases.ts';

test('a deployment is live once nobody has to wait for anything of it', () => {
  assert.equal(isLive({ state: 'finishing' }), true);
  assert.equal(isLive({ state: 'finishing', postdeployJobId: 'j' }), false);
  assert.equal(isLive({ state: 'complete', postdeployJobId: 'j' }), true);
  assert.equal(isLive({ state: 'running' }), false);
});

test('it is followed until it is live, has failed or waits for people', () => {
  const states = [
    'releasing',
    'running',
    'rolling_back',
    'canary',
    'paused',
    'finishing',
    'complete',
    'failed',
  ] as const;
  assert.deepEqual(
    states.filter((state) => isSettled({ state })),
    ['canary', 'paused', 'finishing', 'complete', 'failed'],
  );
  assert.deepEqual(
    states.filter((state) => isWaiting({ state })),
    ['canary', 'paused'],
  );
});
