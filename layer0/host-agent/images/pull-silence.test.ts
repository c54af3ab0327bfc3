import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { PullSilence } from './pull-silence.ts';

function listen(t: TestContext) {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let silent = 0;
  const silence = new PullSilence(100, () => (silent += 1));
  t.after(() => silence[Symbol.dispose]());
  return {
    hear: (id: string, status: string, current?: number) => silence.hear({ id, status, progressDetail: { current } }),
    isSilent: (afterMs: number) => {
      // One by one: a timer that is set in a tick counts from its end.
      for (let ms = 0; ms < afterMs; ms += 1) t.mock.timers.tick(1);
      return silent > 0;
    },
  };
}

test('of whom nothing is heard is silent, who goes on is not', (t) => {
  const { hear, isSilent } = listen(t);
  hear('latest', 'Pulling from library/app');
  for (let at = 0; at < 5; at += 1) {
    hear('a', 'Downloading', at);
    assert.equal(isSilent(90), false);
  }
  assert.equal(isSilent(20), true);
});

test('to be told the same again is to hear nothing', (t) => {
  const { hear, isSilent } = listen(t);
  hear('a', 'Downloading', 7);
  assert.equal(isSilent(60), false);
  hear('a', 'Downloading', 7);
  assert.equal(isSilent(60), true);
});

test('who only waits for others’ layers may be silent, until its turn comes', (t) => {
  const { hear, isSilent } = listen(t);
  hear('latest', 'Pulling from library/app');
  hear('a', 'Already exists');
  hear('b', 'Pulling fs layer');
  hear('b', 'Waiting');
  assert.equal(isSilent(390), false);
  hear('c', 'Waiting');
  assert.equal(isSilent(390), false);
  hear('b', 'Downloading', 1);
  assert.equal(isSilent(99), false, 'from then on');
  assert.equal(isSilent(10), true, 'one stands still, whoever waits');
});

test('who seems to wait for four times as long is silent: a registry that says nothing from the beginning on looks so', (t) => {
  const { hear, isSilent } = listen(t);
  hear('b', 'Pulling fs layer');
  hear('b', 'Waiting');
  assert.equal(isSilent(399), false);
  assert.equal(isSilent(1), true);
});
