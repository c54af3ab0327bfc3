import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { Deadlines, tickMs } from './deadlines.ts';

function open(t: TestContext) {
  t.mock.timers.enable({ apis: ['setInterval'] });
  let elapsedMs = 1_000_000;
  const deadlines = new Deadlines(() => elapsedMs);
  /** One look after that long. */
  const look = (ms: number) => {
    elapsedMs += ms;
    t.mock.timers.tick(tickMs);
  };
  const pass = (ms: number) => {
    for (let left = ms; left > 0; left -= tickMs) look(tickMs);
  };
  return { deadlines, look, pass, away: (ms: number) => void (elapsedMs += ms) };
}

test('what was to be over is told of once, not early and two looks late at most', (t) => {
  const { deadlines, look, pass } = open(t);
  let late = 0;
  deadlines.start(1_000, () => (late += 1));
  pass(1_000);
  assert.equal(late, 0);
  look(tickMs);
  look(tickMs);
  assert.equal(late, 1);
  pass(5_000);
  assert.equal(late, 1);
});

test('what ended in time is not told of', (t) => {
  const { deadlines, pass } = open(t);
  const stop = deadlines.start(1_000, () => assert.fail('it was not late'));
  pass(500);
  stop();
  pass(5_000);
});

test('a standstill of the process is nobody’s slowness: a moment of it counts, and no verdict comes right behind it', (t) => {
  const { deadlines, look, pass } = open(t);
  let late = 0;
  deadlines.start(10_000, () => (late += 1));
  deadlines.start(300, () => (late += 100));
  look(3_600_000);
  assert.equal(late, 0);
  look(tickMs);
  assert.equal(late, 100);
  pass(8_000);
  assert.equal(late, 100);
  pass(3_000);
  assert.equal(late, 101);
});

test('of a process that gets a turn every few seconds only, the turns count', (t) => {
  const { deadlines, look } = open(t);
  let late = 0;
  deadlines.start(10_000, () => (late += 1));
  for (let turn = 0; turn < 20; turn += 1) look(5_000);
  assert.equal(late, 0);
  for (let turn = 0; turn < 4; turn += 1) look(5_000);
  assert.equal(late, 1);
});

test('time in which nothing is watched does not count', (t) => {
  const { deadlines, look, away } = open(t);
  deadlines.start(1_000, () => assert.fail('it ended'))();
  away(3_600_000);
  const end = deadlines.after(1_000);
  const told: number[] = [];
  deadlines.add({ tick: (nowMs) => told.push(nowMs) });
  look(tickMs);
  assert.ok(
    told.every((nowMs) => nowMs < end),
    String(told),
  );
  assert.equal(told.length, 1);
});
