import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fakeClock } from '@flynn/kit/clock';
import { FlynnError } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { HangWatch } from './hang.ts';

/** Its engine answers as it is told to; what is not answered takes all of its deadline. */
function watched() {
  const clock = fakeClock(1_000);
  const stop = new AbortController();
  const deadlines: number[] = [];
  let answer: 'yes' | 'no' | 'away' | 'refuses' = 'yes';
  const engine = {
    async checkLocks({ deadlineMs }: { deadlineMs: number }) {
      deadlines.push(deadlineMs);
      if (answer === 'no') await clock.sleep(deadlineMs);
      if (answer === 'no') throw new FlynnError('timeout', 'no answer');
      if (answer === 'away') throw new FlynnError('unavailable', 'no engine');
      if (answer === 'refuses') throw new FlynnError('internal', 'out of memory');
    },
  };
  const watch = new HangWatch({ engine, version: '20.10.24', log: silentLogger(), clock });
  const running = watch.run(stop.signal);
  return {
    watch,
    clock,
    deadlines,
    answers: (next: typeof answer) => void (answer = next),
    async [Symbol.asyncDispose]() {
      stop.abort();
      await clock.advance(60_000);
      await running;
    },
  };
}

test('an engine that ends nothing for about a minute hangs, since the first of the tries in vain', async () => {
  await using place = watched();
  const { watch, clock, deadlines } = place;
  await clock.advance(10_000);
  assert.equal(watch.since, undefined);
  place.answers('no');
  // The first is due half a minute after the one that was answered.
  await clock.advance(20_000 + 50_000);
  assert.equal(watch.since, undefined);
  await clock.advance(20_000);
  assert.equal(watch.since, 31_000);
  assert.deepEqual(deadlines, [5_000, 5_000, 10_000, 20_000, 30_000]);
  // It is asked on, seldom, until it answers again, and then waited for as little as before.
  await clock.advance(60_000);
  assert.equal(watch.since, 31_000);
  place.answers('yes');
  await clock.advance(60_000);
  assert.equal(watch.since, undefined);
  assert.equal(deadlines.at(-1), 5_000);
});

test('one that is slow, away, or refuses does not hang', async () => {
  await using place = watched();
  const { watch, clock } = place;
  for (const other of ['yes', 'away', 'refuses'] as const) {
    place.answers('no');
    // Three in a row, and the fourth is answered within the deadline it has.
    await clock.advance(30_000 + 5_000 + 10_000 + 20_000);
    place.answers(other);
    await clock.advance(30_000);
    assert.equal(watch.since, undefined);
  }
});
