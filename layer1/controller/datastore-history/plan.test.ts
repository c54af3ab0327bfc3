/** When all there is is copied anew, and when something is tried again. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { archive, copy, minuteMs, piece, startMs, status } from './history-fixture.ts';
import { baseDue, collectRetryMs, dayMs, gapsWith, isDue } from './plan.ts';

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
  const behindLost = archive([copy(0)], [piece(1, { isLost: true })]);
  assert.deepEqual(baseDue(behindLost, status(), startMs), { is: 'wait', untilMs: startMs + 60 * minuteMs });
  assert.deepEqual(baseDue(behindLost, status(), startMs + 60 * minuteMs), { is: 'due' });
  // By a copy whose log does not go on from it nothing is gone back to.
  const apart = status([piece(2), piece(3)]);
  assert.deepEqual(baseDue(archive([copy(1)]), apart, startMs), { is: 'wait', untilMs: startMs + 61 * minuteMs });
  assert.deepEqual(baseDue(archive([copy(1)]), apart, startMs + 61 * minuteMs), { is: 'due' });
  assert.deepEqual(baseDue(archive([copy(2)]), apart, startMs), { is: 'wait', untilMs: undefined });
  assert.deepEqual(baseDue(archive([copy(0, { isLost: true })]), status(), startMs), { is: 'due' });
});

test('after a gap a copy waits until its run has lasted: longer with each that comes soon, and than the last one took; an hour at most', () => {
  const waitOf = (gaps: number, tookMinutes = 0) => {
    const last = copy(0, { run: 1, endedMs: startMs + tookMinutes * minuteMs });
    const due = baseDue(archive([last]), status([], { run: 2, gaps, begunMs: startMs }), startMs - 1);
    return due.is === 'due' ? 0 : ((due.untilMs ?? Infinity) - startMs) / minuteMs;
  };
  assert.deepEqual(
    [0, 1, 2, 3, 4, 5, 200].map((gaps) => waitOf(gaps)),
    [0, 5, 10, 20, 40, 60, 60],
  );
  assert.deepEqual([waitOf(1, 25), waitOf(2, 25), waitOf(2, 300)], [5, 50, 60]);
  const behind = status([], { run: 2, gaps: 1, begunMs: startMs + 2 * dayMs });
  assert.deepEqual(baseDue(archive([]), behind, startMs), { is: 'due' });
  const after = (minutes: number) => gapsWith({ gaps: 4, begunMs: startMs }, startMs + minutes * minuteMs);
  assert.deepEqual([gapsWith({}, startMs), after(29), after(30)], [1, 5, 1]);
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

test('with a gap every hour, or every half, each run has its copy', () => {
  for (const everyMinutes of [30, 60]) {
    let now = status([], { run: 1, begunMs: startMs });
    for (let gap = 1; gap <= 48; gap += 1) {
      const atMs = startMs + gap * everyMinutes * minuteMs;
      now = status([], { run: gap + 1, gaps: gapsWith(now, atMs), begunMs: atMs });
      const due = baseDue(archive([copy(0)]), now, atMs + 10 * minuteMs);
      assert.deepEqual(due, { is: 'due' }, `after gap ${gap}`);
    }
  }
});
