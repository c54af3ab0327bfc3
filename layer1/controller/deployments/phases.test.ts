import assert from 'node:assert/strict';
import { test } from 'node:test';
import { holdsCounts, isLive, isSettled, isWaiting, mayBeFollowed } from './phases.ts';
import { rolloutSchema, strategies } from './rollout-settings.ts';

test('a deployment is live once nobody has to wait for anything of it', () => {
  assert.equal(isLive({ state: 'finishing' }), true);
  assert.equal(isLive({ state: 'finishing', postdeployJobId: 'j' }), false);
  assert.equal(isLive({ state: 'complete', postdeployJobId: 'j' }), true);
  assert.equal(isLive({ state: 'running' }), false);
});

test('another begins beside the last old jobs only where what is too much is counted in batches, and nothing else is to come', () => {
  const last = { state: 'finishing' as const, rollout: rolloutSchema.parse({}) };
  assert.equal(mayBeFollowed(last), true);
  assert.equal(mayBeFollowed({ ...last, postdeployJobId: 'j' }), false);
  assert.equal(mayBeFollowed({ ...last, state: 'running' }), false);
  const those = strategies.filter((strategy) => mayBeFollowed({ ...last, rollout: { ...last.rollout, strategy } }));
  assert.deepEqual(those, ['in-batches']);
});

test('it is followed until the new release alone answers, or it has failed or waits for people', () => {
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
    states.filter((state) => isSettled({ state, progress: { web: { wanted: 2, up: 2, old: 0 } } })),
    ['canary', 'paused', 'finishing', 'complete', 'failed'],
  );
  assert.deepEqual(
    states.filter((state) => !holdsCounts({ state })),
    ['finishing', 'complete', 'failed'],
    'once it is live, or over, people may scale',
  );
  assert.equal(isSettled({ state: 'finishing', progress: { web: { wanted: 2, up: 2, old: 1 } } }), false);
  assert.deepEqual(
    states.filter((state) => isWaiting({ state })),
    ['canary', 'paused'],
  );
});
