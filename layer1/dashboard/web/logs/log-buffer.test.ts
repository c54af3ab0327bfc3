import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { countOf } from '../parts/blocks.ts';
import { added, emptyLog, followed, type LogBuffer, shownLines } from './log-buffer.ts';

const items = (from: number, count: number) =>
  Array.from({ length: count }, (_, at) => ({ is: 'gap' as const, from: String(from + at), to: '' }));

function ends({ kept }: LogBuffer): (string | undefined)[] {
  const all = kept.flatMap((block) => block.items);
  return [all[0], all.at(-1)].map((item) => (item?.is === 'gap' ? item.from : undefined));
}

describe('what of a log is on the page', () => {
  it('is the newest of it', () => {
    const buffer = added(added(emptyLog, items(0, shownLines)), items(shownLines, 150));
    const count = countOf(buffer.kept);
    assert.ok(count >= shownLines && count < shownLines + 100, String(count));
    assert.deepEqual([...ends(buffer), buffer.unread], [String(shownLines + 150 - count), String(shownLines + 149), 0]);
  });

  it('stays under the eyes of who reads older lines, and what came meanwhile is counted', () => {
    const reading = followed(added(emptyLog, items(0, shownLines)), false);
    const later = added(reading, items(shownLines, 507));
    assert.deepEqual([countOf(later.kept), ends(later)[0], later.unread], [shownLines + 507, '0', 507]);
    const back = followed(later, true);
    assert.deepEqual([countOf(back.kept) < shownLines + 100, back.unread], [true, 0]);
  });
});
