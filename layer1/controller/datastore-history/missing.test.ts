/** What is missing, since when, and when it is given up. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { minuteMs, piece, startMs } from './history-fixture.ts';
import { givenUp, lookedAt, withLost, withUnread } from './missing.ts';
import type { Answer } from './missing.ts';
import type { HistoryStatus } from './types.ts';

type Looked = HistoryStatus['looked'];

/** Each minute with what was answered then, of one. */
function look(said: readonly (readonly [minute: number, Answer])[]): Looked {
  let looked: Looked;
  for (const [minute, answer] of said) {
    const nowMs = startMs + minute * minuteMs;
    looked = lookedAt(looked, new Map([['x', answer]]), { begunMs: nowMs, nowMs });
  }
  return looked;
}

const gone = (from: number, to: number) =>
  Array.from({ length: (to - from) / 5 + 1 }, (_, at) => [from + at * 5, 'gone'] as const);
const isGivenUp = (looked: Looked): boolean => looked !== undefined && givenUp(looked).lost.length === 1;

test('what is missing in each look of an hour is given up; another answer, or a time without a look, begins it anew', () => {
  assert.equal(isGivenUp(look(gone(0, 55))), false);
  assert.equal(isGivenUp(look(gone(0, 60))), true);
  for (const between of ['there', 'unknown'] as const) {
    assert.equal(isGivenUp(look([...gone(0, 30), [35, between], ...gone(40, 95)])), false);
    assert.equal(isGivenUp(look([...gone(0, 30), [35, between], ...gone(40, 100)])), true);
  }
  // The whole cluster was down.
  assert.equal(isGivenUp(look([...gone(0, 55), ...gone(600, 605)])), false);
  // An hour in which nobody looked often.
  assert.equal(isGivenUp(look([0, 15, 30, 45, 60].map((minute) => [minute, 'gone'] as const))), false);
  // A clock that was put back.
  assert.equal(isGivenUp(look([...gone(0, 55), [-600, 'gone']])), false);
});

test('it is looked for often while anything is missing or not known, else once an hour; one that is not read is looked for at once', () => {
  const minutesTo = (looked: Looked) => ((looked?.nextMs ?? 0) - startMs) / minuteMs;
  assert.deepEqual(
    (['there', 'gone', 'unknown'] as const).map((answer) => minutesTo(look([[0, answer]]))),
    [60, 5, 5],
  );
  const unread = withUnread(undefined, { digest: 'x' }, startMs);
  assert.deepEqual([minutesTo(unread), unread.missing.length], [0, 1]);
  assert.equal(withUnread(unread, { digest: 'x' }, startMs + 1), unread);
  assert.equal(minutesTo(withUnread(look([[0, 'there']]), { digest: 'x' }, startMs)), 1);
});

test('what was found unread while others were asked after stays for the next look; what is kept no more goes', () => {
  const before = withUnread(undefined, { digest: 'y', isDamaged: true }, startMs);
  const during = lookedAt(before, new Map([['y', 'there']]), { begunMs: startMs - 1, nowMs: startMs + 1 });
  assert.deepEqual(during.missing, before.missing);
  const after = lookedAt(before, new Map(), { begunMs: startMs + 1, nowMs: startMs + 2 });
  assert.deepEqual(after.missing, []);
});

test('one that is found again is not lost any more; one that is damaged stays so', () => {
  const lost = [{ digest: 'sha256:1', sinceMs: 0, seenMs: 0, times: 10 }];
  const [, marked] = withLost([piece(0), piece(1)], lost);
  assert.equal(marked?.isLost, true);
  const there = new Map([['sha256:1', 'there']] as const);
  assert.equal(withLost([piece(1, { isLost: true })], [], there)[0]?.isLost, undefined);
  assert.equal(withLost([piece(1, { isLost: true, isDamaged: true })], [], there)[0]?.isLost, true);
});
