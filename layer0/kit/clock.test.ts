import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fakeClock, systemClock } from './clock.ts';
import { FlynnError, hasCode } from './errors.ts';
import { withDeadline } from './retry.ts';

test('a fake clock stands still until it is advanced, and wakes sleepers in the order they are due', async () => {
  const clock = fakeClock(1000);
  const woken: string[] = [];
  const sleep = async (name: string, ms: number) => {
    await clock.sleep(ms);
    woken.push(`${name} at ${clock.now()}`);
  };
  const all = [sleep('late', 30), sleep('early', 10)];
  await clock.advance(9);
  assert.deepEqual(woken, []);
  await clock.advance(100);
  assert.deepEqual(woken, ['early at 1010', 'late at 1030']);
  assert.equal(clock.now(), 1109);
  await Promise.all(all);
});

test('a loop that sleeps again is woken as often as the time allows', async () => {
  const clock = fakeClock();
  const times: number[] = [];
  const stop = new AbortController();
  const loop = (async () => {
    while (times.length < 10) {
      await clock.sleep(10, { signal: stop.signal });
      times.push(clock.now());
    }
  })();
  await clock.advance(35);
  assert.deepEqual(times, [10, 20, 30]);
  stop.abort();
  await assert.rejects(loop, (error) => hasCode(error, 'cancelled'));
});

test('both clocks end a sleep with the reason of the signal', async () => {
  for (const clock of [systemClock, fakeClock()]) {
    const before = AbortSignal.abort();
    await assert.rejects(clock.sleep(60_000, { signal: before }), (error) => hasCode(error, 'cancelled'));
    const during = new AbortController();
    const asleep = clock.sleep(60_000, { signal: during.signal });
    during.abort(new FlynnError('conflict', 'the lease was lost'));
    await assert.rejects(asleep, /the lease was lost/);
    await assert.rejects(clock.sleep(60_000, { signal: AbortSignal.timeout(1) }), (error) => hasCode(error, 'timeout'));
  }
});

test('what is due already is waited for no longer, and no timer is told so', async () => {
  const warnings: Error[] = [];
  const note = (warning: Error): void => void (warning.name.startsWith('Timeout') && warnings.push(warning));
  process.on('warning', note);
  await systemClock.sleep(-0.009);
  const over = withDeadline(-5);
  await assert.rejects(systemClock.sleep(60_000, { signal: over }), (error) => hasCode(error, 'timeout'));
  // A warning comes with a later turn of the loop.
  await new Promise((resolve) => setImmediate(resolve));
  process.off('warning', note);
  assert.deepEqual(warnings, []);
});

test('the system clock sleeps as long as it is to, and tells the time of day', async (t) => {
  const startedMs = performance.now();
  await systemClock.sleep(5);
  // Timers count whole milliseconds.
  assert.ok(performance.now() - startedMs >= 4);
  t.mock.timers.enable({ apis: ['Date'], now: 1_700_000_000_000 });
  assert.equal(systemClock.now(), 1_700_000_000_000);
});
