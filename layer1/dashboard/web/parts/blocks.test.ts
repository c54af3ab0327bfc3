import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { countOf, grown, newest, type Blocks } from './blocks.ts';

const numbers = (from: number, count: number) => Array.from({ length: count }, (_, at) => from + at);
const all = (blocks: Blocks<number>) => blocks.flatMap(({ items }) => items);

describe('a list in blocks', () => {
  it('has all that came, in its order and each block under a key of its own', () => {
    let blocks: Blocks<number> = [];
    for (const [from, count] of [
      [0, 1],
      [1, 98],
      [99, 1],
      [100, 250],
      [350, 0],
      [350, 7],
    ] as const) {
      blocks = grown(blocks, numbers(from, count));
    }
    assert.deepEqual(all(blocks), numbers(0, 357));
    assert.deepEqual(
      blocks.map(({ key, items }) => [key, items.length]),
      [
        [0, 100],
        [1, 100],
        [2, 100],
        [3, 57],
      ],
    );
    assert.equal(countOf(blocks), 357);
  });

  it('keeps what is full as it is', () => {
    const before = grown([], numbers(0, 250));
    const after = grown(before, [250]);
    assert.deepEqual(
      after.map((block, at) => block === before[at]),
      [true, true, false],
    );
  });

  it('drops the oldest by blocks, and never more than may go', () => {
    const blocks = grown([], numbers(0, 350));
    assert.equal(newest(blocks, 350), blocks);
    assert.equal(newest(blocks, 251), blocks);
    assert.deepEqual(all(newest(blocks, 250)), numbers(100, 250));
    assert.deepEqual(all(newest(blocks, 1)), numbers(300, 50));
    assert.deepEqual(
      grown(newest(blocks, 1), [350]).map(({ key }) => key),
      [3],
    );
    assert.deepEqual(newest([], 5), []);
  });
});
