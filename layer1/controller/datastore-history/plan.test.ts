/** When all there is is copied anew, and when something is tried again. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { archive, copy, minuteMs, piece, startMs, status } from './history-fixture.ts';
import { baseDue, collectRetryMs, dayMs, isDue, isLostSince } from './plan.ts';

const MiB = 1024 ** 2;

test('a copy begins a run; after a day another, if much was written, after a week if anything was', () => {
  assert.deepEqual(baseDue(archive([]), status(), startMs), { is: 'due' });
  const { at: _, ...unbegun } = status();
  assert.deepEqual(baseDue(archive([]), unbegun, startMs), { is: 'wait', untilMs: undefined });
  const due = (bytes: number, afterMs: number, ofBytes = 4_000) =>
    baseDue(archive([copy(0, { bytes: ofBytes })]), status([piece(0, { bytes })]), startMs + afterMs);
  assert.deepEqual(due(20 * MiB, dayMs - 1), { is: 'wait', untilMs: startMs + dayMs });
  assert.deepEqual(due(20 * MiB, dayMs), { is: 'due' });
  assert.deepEqual(due(20 * MiB, dayMs, 400 * MiB), { is: 'wait', untilMs: startMs + 7 * dayMs });
  // As much log as a copy: all copies together are no more than the log, and two of them.
  assert.deepEqual(due(399 * MiB, dayMs, 400 * MiB), { is: 'wait', untilMs: startMs + 7 * dayMs });
  assert.deepEqual(due(400 * MiB, dayMs, 400 * MiB), { is: 'due' });
  assert.deepEqual(due(MiB, dayMs), { is: 'wait', untilMs: startMs + 7 * dayMs });
  assert.deepEqual(due(MiB, 7 * dayMs), { is: 'due' });
  assert.deepEqual(due(1_000, 70 * dayMs), { is: 'wait', untilMs: undefined });
  assert.deepEqual(baseDue(archive([copy(0)]), status([], { run: 2 }), startMs), { is: 'due' });
  assert.deepEqual(baseDue(archive([copy(0)], [piece(1, { isLost: true })]), status(), startMs), { is: 'due' });
  assert.deepEqual(
    [startMs + dayMs, startMs - 60 * minuteMs + 1, startMs - 60 * minuteMs].map((since) => isLostSince(since, startMs)),
    [false, false, true],
  );
});

test('one that failed is tried again later; that of another run does not count, nor a clock that was put back', () => {
  const failed = { run: 1, attempt: 2, startedMs: startMs, start: { timeline: 1, lsn: 0 }, nextMs: startMs + minuteMs };
  const of = (error: string | undefined, run = 1, nowMs = startMs) =>
    baseDue(archive([]), status([], { run, base: { ...failed, ...(error === undefined ? {} : { error }) } }), nowMs);
  assert.deepEqual(of('no room'), { is: 'wait', untilMs: startMs + minuteMs });
  assert.deepEqual(of('no room', 2), { is: 'due' });
  assert.deepEqual(of('no room', 1, startMs - 2 * dayMs), { is: 'due' });
  assert.deepEqual(
    [1, 2, 3, 7, 20].map(collectRetryMs),
    [5, 10, 20, 300, 300].map((seconds) => seconds * 1_000),
  );
  assert.deepEqual([isDue(5, 5), isDue(6, 5), isDue(6 + dayMs, 5)], [true, false, true]);
});
