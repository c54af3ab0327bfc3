import { fakeClock } from '@flynn/kit/clock';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { QuietPeriod } from './quiet-period.ts';

function watch() {
  const clock = fakeClock();
  const stop = new AbortController();
  const quiet = new QuietPeriod({ minMs: 100, maxMs: 1_000, clock });
  const at: number[] = [];
  const running = (async () => {
    for (;;) {
      await quiet.settled(stop.signal);
      if (stop.signal.aborted) return;
      at.push(clock.now());
    }
  })();
  return { clock, quiet, at, end: () => (stop.abort(), running) };
}

test('changes are taken together until there was none for the shorter time', async () => {
  const { clock, quiet, at, end } = watch();
  quiet.touch();
  await clock.advance(60);
  quiet.touch();
  await clock.advance(99);
  assert.deepEqual(at, []);
  await clock.advance(500);
  assert.deepEqual(at, [160]);
  await end();
});

test('a change every moment is not waited for longer than the longer time', async () => {
  const { clock, quiet, at, end } = watch();
  for (let n = 0; n < 25; n += 1) {
    quiet.touch();
    await clock.advance(50);
  }
  assert.equal(at[0], 1_000);
  await end();
});

test('what is in a hurry does not wait, and what follows does again', async () => {
  const { clock, quiet, at, end } = watch();
  await clock.advance(5);
  quiet.hurry();
  await clock.advance(1);
  assert.deepEqual(at, [5]);
  quiet.touch();
  await clock.advance(200);
  assert.deepEqual(at, [5, 106]);
  await end();
});

test('what is in a hurry ends a wait that has begun', async () => {
  const { clock, quiet, at, end } = watch();
  quiet.touch();
  await clock.advance(30);
  quiet.hurry();
  await clock.advance(1);
  assert.deepEqual(at, [30]);
  await clock.advance(500);
  assert.deepEqual(at, [30], 'and what it waited for came with it');
  await end();
});
