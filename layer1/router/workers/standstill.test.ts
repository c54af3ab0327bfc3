import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Standstill } from './standstill.ts';
import type { Sight } from './standstill.ts';

const patience = { lookEveryMs: 1_000, limitMs: 30_000 };

/** One who looks at a worker again and again, as the test says. */
function watched() {
  let now: Sight = { atMs: 0, waitedMs: 0, isBlocked: false };
  const standstill = new Standstill(patience, now);
  return {
    standstill,
    /** What was found, once each, in the order in which it was. */
    pass(looks: number, step: Partial<Sight> = {}): string[] {
      const found = Array.from({ length: looks }, () => {
        const { atMs = 1_000, waitedMs = 0, isBlocked = false } = step;
        now = { atMs: now.atMs + atMs, waitedMs: now.waitedMs + waitedMs, isBlocked };
        return standstill.look(now);
      });
      return [...new Set(found)];
    },
  };
}

test('a worker that says nothing for half a minute stands still, and is asked once', () => {
  const worker = watched();
  assert.deepEqual(worker.pass(1), ['ask']);
  assert.deepEqual(worker.pass(30), ['wait']);
  assert.deepEqual(worker.pass(1), ['still']);
  // One that nothing ends is told of as often.
  assert.deepEqual(worker.pass(30), ['wait']);
  assert.deepEqual(worker.pass(1), ['still']);
});

test('whatever it says is a sign of life, and it is asked anew', () => {
  const worker = watched();
  for (let round = 0; round < 5; round += 1) {
    assert.deepEqual(worker.pass(25), ['ask', 'wait']);
    worker.standstill.heard();
  }
});

test('one that waits for a processor is busy, however long it does', () => {
  // Two cores and sixty that want them: it has a thirtieth of one.
  assert.deepEqual(watched().pass(600, { waitedMs: 967 }), ['ask', 'wait']);
});

test('one that spins stands still on a crowded machine too, once it had as much of a processor', () => {
  const worker = watched();
  assert.deepEqual(worker.pass(300, { waitedMs: 900 }), ['ask', 'wait']);
  assert.deepEqual(worker.pass(3, { waitedMs: 900 }), ['wait', 'still']);
});

test('while the one who asks is suspended, or starved, next to nothing counts', () => {
  const worker = watched();
  assert.deepEqual(worker.pass(14, { atMs: 3_600_000 }), ['ask', 'wait']);
});

test('one that waits for a disk is left alone', () => {
  assert.deepEqual(watched().pass(600, { isBlocked: true }), ['ask', 'wait']);
});
