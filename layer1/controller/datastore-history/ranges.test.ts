/** Which moments can be gone back to, and by what. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { archive, copy, minuteMs, piece, pieces, startMs, status } from './history-fixture.ts';
import { rangesOf, recoveryTo, roomOf } from './ranges.ts';

const at = (minute: number): number => startMs + minute * minuteMs;

test('a moment is gone back to by the copy before it and the log until then, and no further', () => {
  const kept = archive([copy(0), copy(10)], pieces(0, 16));
  const now = status(pieces(16, 20), { untilMs: at(30) });
  assert.deepEqual(rangesOf(kept, now), [{ fromMs: at(1), untilMs: at(30) }]);
  const early = recoveryTo(at(4) - 1, kept, now);
  assert.deepEqual([early.base.digest, early.pieces.map(({ from }) => from)], ['sha256:copy-0', [0, 100, 200, 300]]);
  const late = recoveryTo(at(11), kept, now);
  assert.deepEqual([late.base.digest, late.pieces.map(({ from }) => from)], ['sha256:copy-10', [1_000]]);
  // Nothing was written since: what there was then is what there is at the end of the log.
  assert.equal(recoveryTo(at(29), kept, now).pieces.at(-1)?.from, 1_900);
});

test('what is not kept is told with what is: before, in a gap, not collected yet', () => {
  const over = archive([copy(0), copy(20, { run: 2 })], [...pieces(0, 10), ...pieces(20, 25, { run: 2 })]);
  const now = status([], { run: 2, untilMs: at(25) });
  assert.deepEqual(rangesOf(over, now), [
    { fromMs: at(1), untilMs: at(10) },
    { fromMs: at(21), untilMs: at(25) },
  ]);
  assert.equal(recoveryTo(at(5), over, now).base.run, 1);
  for (const [minute, words] of [
    [0, /is not kept: one can go back to 2027-01-01T00:01:00.000Z to 2027-01-01T00:10:00.000Z, 2027-01-01T00:21:/],
    [15, /is not kept: one can go back to/],
    [26, /what was written since is kept within a minute or two/],
  ] as const) {
    assert.throws(() => recoveryTo(at(minute), over, now), { code: 'invalid', message: words });
  }
  const { readyMs: _, ...unready } = copy(0);
  assert.throws(() => recoveryTo(at(1), archive([unready]), status([piece(0)], { untilMs: at(1) })), {
    code: 'invalid',
    message: /no history yet/,
  });
});

test('over another timeline the log goes on; a piece that is missing is found', () => {
  const after = piece(4, { end: { timeline: 2, lsn: 450 } });
  const more = piece(5, { from: 450, end: { timeline: 2, lsn: 600 } });
  const now = status([], { untilMs: at(6) });
  const whole = archive([copy(0)], [...pieces(0, 4), after, more]);
  assert.equal(recoveryTo(at(6), whole, now).pieces.length, 6);
  // Of a copy on the later timeline nothing of the former is needed.
  const later = archive([copy(4, { start: { timeline: 2, lsn: 450 }, readyMs: at(6) })], whole.pieces);
  assert.deepEqual(recoveryTo(at(6), later, now).pieces, [more]);
  assert.throws(() => recoveryTo(at(6), archive([copy(0)], [...pieces(0, 2), ...pieces(3, 6)]), now), {
    code: 'invalid',
    message: /one can go back to \S+ to 2027-01-01T00:02:00.000Z/,
  });
});

test('a piece that is lost is a gap: what is before it can be gone back to, and what comes with another copy', () => {
  const log = pieces(0, 30).with(12, piece(12, { isLost: true }));
  const kept = archive([copy(0), copy(10), copy(20)], log);
  const now = status([], { untilMs: at(40) });
  assert.deepEqual(rangesOf(kept, now), [
    { fromMs: at(1), untilMs: at(12) },
    { fromMs: at(21), untilMs: at(40) },
  ]);
  assert.equal(recoveryTo(at(12), kept, now).base.digest, 'sha256:copy-10');
  assert.throws(() => recoveryTo(at(13), kept, now), { code: 'invalid', message: /is not kept/ });
  assert.equal(recoveryTo(at(35), kept, now).pieces.length, 10);
});

test('a copy that is lost is gone back by no more: the one before it is, as far as the log goes', () => {
  const kept = archive([copy(0), copy(10, { isLost: true })], pieces(0, 20));
  const now = status([], { untilMs: at(20) });
  assert.deepEqual(rangesOf(kept, now), [{ fromMs: at(1), untilMs: at(20) }]);
  assert.equal(recoveryTo(at(15), kept, now).base.digest, 'sha256:copy-0');
  assert.deepEqual(rangesOf(archive([copy(10, { isLost: true })], pieces(0, 20)), now), []);
});

test('room is for the data as they were largest, twice, for the log, and for that of the restore', () => {
  const GiB = 1024 ** 3;
  // Copied when it was empty, and then loaded.
  const base = copy(0, { dataBytes: 8 * 1024 ** 2 });
  const loaded = piece(1, { from: 100, end: { timeline: 1, lsn: 20 * GiB }, dataBytes: 20 * GiB });
  const room = roomOf({
    base,
    pieces: [piece(0), loaded, piece(2, { from: 20 * GiB, end: { timeline: 1, lsn: 20 * GiB + 1 } })],
  });
  assert.equal(Math.round(room / GiB), 62);
  assert.ok(roomOf({ base, pieces: [piece(0, { dataBytes: 8 * 1024 ** 2 })] }) < 64 * 1024 ** 2);
});
