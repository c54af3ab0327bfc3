/** Many pieces are made few, and what is not needed any more goes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { archive, copy, minuteMs, piece, pieces, startMs, status } from './history-fixture.ts';
import { allPieces, dueMerge, kept, keptSince, mergedPiece, unmerged, withMerged } from './pieces.ts';
import type { Archive, HistoryStatus, Piece } from './types.ts';

let count = 0;

/** All that is due, as a worker does it. */
function merge(before: Archive, { recent, run }: Pick<HistoryStatus, 'recent' | 'run'>): [Archive, Piece[]] {
  let now = before;
  let newest = recent;
  for (let due = dueMerge(now, { recent: newest, run }); due; due = dueMerge(now, { recent: newest, run })) {
    count += 1;
    const bytes = due.reduce((sum, one) => sum + one.bytes, 0);
    const one = mergedPiece(due, { digest: `merged-${count}`, blobBytes: bytes, bytes });
    assert.ok(one !== undefined);
    now = withMerged(now, due, one);
    newest = unmerged(now, newest);
  }
  return [now, newest];
}

test('a month of minutes is a short list, in which nothing is missing and nothing is twice', () => {
  let now = archive([]);
  let recent: Piece[] = [];
  const days = 30;
  for (let minute = 0; minute < days * 1_440; minute += 1) {
    recent.push(piece(minute));
    [now, recent] = merge(now, { recent, run: 1 });
  }
  const all = allPieces(now, { recent });
  assert.ok(all.length < 220, `${all.length} pieces`);
  assert.ok(JSON.stringify(now).length < 64 * 1024);
  assert.equal(all[0]?.from, 0);
  for (const [at, one] of all.entries()) assert.equal(one.from, all[at - 1]?.end.lsn ?? 0);
  assert.equal(all.at(-1)?.end.lsn, days * 144_000);
  assert.equal(
    all.reduce((sum, { bytes }) => sum + bytes, 0),
    days * 144_000,
  );
});

test('a worker that died between two writes leaves no piece that is there twice', () => {
  const recent = pieces(0, 17);
  const due = dueMerge(archive([]), { recent, run: 1 }) ?? [];
  assert.equal(due.length, 16);
  const one = mergedPiece(due, { digest: 'm', blobBytes: 1, bytes: 1 }) ?? assert.fail();
  const half = withMerged(archive([]), due, one);
  assert.deepEqual(
    allPieces(half, { recent }).map(({ digest }) => digest),
    ['m', 'sha256:16'],
  );
  assert.equal(dueMerge(half, { recent, run: 1 }), undefined);
});

test('what is large stays as it is; of a run that is over all goes to the archive, and is made one with no other', () => {
  const large = pieces(0, 20, { blobBytes: 5 * 1024 ** 3 });
  const [now, recent] = merge(archive([]), { recent: large, run: 1 });
  assert.deepEqual([now.pieces.length, recent.length], [5, 15]);
  assert.ok(now.pieces.every(({ level }) => level === 2));

  const [over, left] = merge(archive([]), { recent: [...pieces(0, 3), piece(3, { run: 2 })], run: 2 });
  assert.deepEqual(
    over.pieces.map(({ run, from, end }) => [run, from, end.lsn]),
    [[1, 0, 300]],
  );
  assert.deepEqual(
    left.map(({ run }) => run),
    [2],
  );
});

test('large pieces in a row keep none after them from being merged', () => {
  const large = pieces(0, 2, { level: 1, blobBytes: 3 * 1024 ** 3 });
  const [now] = merge(archive([], [...large, ...pieces(2, 66, { level: 1 })]), { recent: [], run: 1 });
  assert.ok(now.pieces.length < 25, `${now.pieces.length} pieces`);
  assert.ok(now.pieces.slice(0, 2).every(({ level }) => level === 2));
  for (const [at, one] of now.pieces.entries()) assert.equal(one.from, now.pieces[at - 1]?.end.lsn ?? 0);
});

test('what was forgotten while it was merged does not come back behind what came after it', () => {
  const all = pieces(0, 20, { level: 1 });
  const due = dueMerge(archive([], all), { recent: [], run: 1 }) ?? [];
  const one = mergedPiece(due, { digest: 'm', blobBytes: 1, bytes: 1 }) ?? assert.fail();
  const left = archive([], all.slice(3));
  assert.equal(withMerged(left, due, one), left);
});

test('one that is lost is made one with no other, and keeps none of them from it', () => {
  const recent = pieces(0, 40).with(5, piece(5, { isLost: true }));
  const [now, newest] = merge(archive([]), { recent, run: 1 });
  assert.deepEqual(
    now.pieces.map(({ from, end, isLost }) => [from, end.lsn, isLost]),
    [
      [0, 500, undefined],
      [500, 600, true],
      [600, 2_200, undefined],
      [2_200, 3_800, undefined],
    ],
  );
  assert.equal(newest.length, 2);
});

test('one that is missing holds up none either, and is not lost by that', () => {
  const missing = [5, 6].map((at) => ({ digest: `sha256:${at}`, sinceMs: startMs, seenMs: startMs, times: 1 }));
  const looked = { atMs: startMs, nextMs: startMs, missing };
  const ends: (number | undefined)[] = [];
  let [now, recent] = [archive([]), pieces(0, 40)];
  for (let due = dueMerge(now, { recent, run: 1, looked }); due; due = dueMerge(now, { recent, run: 1, looked })) {
    const one = mergedPiece(due, { digest: due[0]?.digest ?? '', blobBytes: 1, bytes: 1 }) ?? assert.fail();
    now = withMerged(now, due, one);
    recent = unmerged(now, recent);
    ends.push(one.end.lsn);
  }
  assert.deepEqual(ends, [500, 600, 700, 2_300, 3_900]);
  assert.ok(now.pieces.every(({ isLost }) => isLost === undefined));
});

test('of short runs that are over, the longest of each day is kept and the newest; of a long one, all', () => {
  const hour = 60;
  const bases = Array.from({ length: 20 }, (_, at) => copy(30 * hour + at * 6, { run: at + 2, digest: `short-${at}` }));
  const ended = bases.map(({ run, readyMs = 0 }) => ({ run, untilMs: readyMs + (run === 9 ? 4 : 2) * minuteMs }));
  const long = copy(0);
  const now = status([], {
    run: 22,
    ended: [{ run: 1, untilMs: startMs + 29 * hour * minuteMs }, ...ended],
  });
  const left = kept(archive([long, ...bases, copy(33 * hour, { run: 22 })]), now, startMs);
  assert.deepEqual(
    left.archive.bases.map(({ run }) => run),
    [1, 9, 21, 22],
  );
  assert.deepEqual(
    left.ended.map(({ run }) => run),
    [1, 9, 21],
  );
});

test('a run is as long as it was, though its first copy is forgotten by now, or its copies are lost for a while', () => {
  const day = 1_440;
  const at = (days: number) => startMs + days * day * minuteMs;
  const bases = [copy(9 * day), copy(10 * day), copy(10.4 * day, { run: 2 }), copy(11 * day, { run: 3 })];
  const ended = [
    { run: 1, sinceMs: at(0), untilMs: at(10.35) },
    { run: 2, sinceMs: at(10.4), untilMs: at(10.9) },
  ];
  const now = status([], { run: 3, ended });
  const runs = (found: ReturnType<typeof kept>) =>
    found.archive.bases.map(({ startedMs }) => (startedMs - startMs) / day / minuteMs);
  const first = kept(archive(bases), now, at(10.01));
  assert.deepEqual(runs(first), [10, 10.4, 11]);
  assert.deepEqual(runs(kept(first.archive, { ...now, ended: first.ended }, at(10.01))), [10, 10.4, 11]);
  const lost = bases.map((one) => (one.run === 1 ? Object.assign({}, one, { isLost: true }) : one));
  const before = status([], { run: 3, ended: ended.map(({ run, untilMs }) => ({ run, untilMs })) });
  assert.ok(runs(kept(archive(lost), before, at(9))).includes(9));
});

test('a copy that is lost takes the place of none', () => {
  const bases = [copy(1), copy(10, { isLost: true })];
  const left = kept(archive(bases, pieces(0, 20)), status(), startMs + 15 * minuteMs);
  assert.equal(left.archive.bases.length, 2);
});

test('what is too old is so by our clock and by that of the datastore, as far as that is known', () => {
  const day = 24 * 60 * minuteMs;
  const hour = 60 * minuteMs;
  const since = (more: Parameters<typeof status>[1], nowMs: number, bases: Piece[] = []) =>
    keptSince(archive([], bases), status([], more), { days: 7, nowMs });
  const untilMs = startMs + 20 * day;
  assert.equal(since({ untilMs }, untilMs + minuteMs), untilMs + minuteMs - 7 * day);
  assert.equal(since({ untilMs }, untilMs + 30 * day), untilMs + hour - 7 * day);
  assert.equal(since({ untilMs: untilMs + 30 * day }, untilMs), untilMs - 7 * day, 'that one may be ahead, too');
  assert.equal(since({ ended: [{ run: 1, untilMs }] }, untilMs + 30 * day), untilMs + hour - 7 * day);
  assert.equal(since({}, untilMs + 30 * day, [piece(0, { untilMs })]), untilMs + hour - 7 * day);
  assert.equal(since({}, untilMs), untilMs - 7 * day, 'there is nothing yet');
});

test('kept is the newest copy before the time, and the log from there on; nothing of a run that is too old', () => {
  const day = 1_440;
  const all = pieces(0, 10 * day);
  const bases = [copy(1), copy(day), copy(2 * day), copy(9 * day)];
  const sinceMs = startMs + 3 * day * minuteMs;
  const left = kept(archive(bases, all.slice(0, -5)), status(all.slice(-5)), sinceMs);
  assert.deepEqual(
    left.archive.bases.map(({ digest }) => digest),
    [`sha256:copy-${2 * day}`, `sha256:copy-${9 * day}`],
  );
  assert.equal(left.archive.pieces[0]?.from, 2 * day * 100);
  assert.equal(left.recent.length, 5);

  // Another run has begun: this one goes once all of it is too old, and not before.
  const next = status([], { run: 2 });
  const end = startMs + 10 * day * minuteMs;
  assert.equal(kept(archive(bases, all), next, end - minuteMs).archive.bases.length, 1);
  assert.deepEqual(kept(archive(bases, all), next, end + minuteMs).archive, archive([]));
});

test('without a copy nothing is kept but what comes after the beginning of one that is under way', () => {
  const recent = pieces(0, 8);
  assert.deepEqual(kept(archive([]), status(recent), startMs).recent, []);
  const base = { run: 1, attempt: 1, startedMs: startMs, start: { timeline: 1, lsn: 500 }, nextMs: 0 };
  assert.deepEqual(
    kept(archive([]), status(recent, { base }), startMs).recent.map(({ from }) => from),
    [500, 600, 700],
  );
});
