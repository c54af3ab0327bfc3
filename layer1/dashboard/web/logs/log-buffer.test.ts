import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { added, emptyLog, followed, shownLines } from './log-buffer.ts';

const items = (count: number) =>
  Array.from({ length: count }, (_, at) => ({ is: 'gap' as const, from: String(at), to: '' }));

describe('what of a log is on the page', () => {
  it('is the newest of it, each in its place', () => {
    const buffer = added(added(emptyLog, items(shownLines)), items(3));
    assert.equal(buffer.kept.length, shownLines);
    assert.deepEqual([buffer.kept[0]?.at, buffer.kept.at(-1)?.at, buffer.unread], [3, shownLines + 2, 0]);
  });

  it('stays under the eyes of who reads older lines, and what came meanwhile is counted', () => {
    const reading = followed(added(emptyLog, items(shownLines)), false);
    const later = added(reading, items(7));
    assert.deepEqual([later.kept.length, later.kept[0]?.at, later.unread], [shownLines + 7, 0, 7]);
    const back = followed(later, true);
    assert.deepEqual([back.kept.length, back.unread], [shownLines, 0]);
  });
});
