import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { isDue, pressed, sentOf, told, type Wish } from './scaling-wish.ts';

/** Pressed so often, from what is wanted on. */
function pressedBy(wanted: number, ...steps: readonly number[]): Wish | undefined {
  return steps.reduce<Wish | undefined>((wish, by) => pressed(wish, wanted, by), undefined);
}

function wishOf(wish: Wish | undefined): Wish {
  assert.ok(wish !== undefined);
  return wish;
}

describe('a wish for another count', () => {
  it('is what was pressed since, not below none', () => {
    assert.equal(pressedBy(2, 1, 1)?.count, 4);
    assert.equal(pressedBy(1, -1, -1)?.count, 0);
    assert.equal(pressedBy(2, 1, -1), undefined);
  });

  it('is sent once, and is over when the cluster tells of it', () => {
    const wish = wishOf(pressedBy(2, 1));
    assert.equal(isDue(wish), true);
    const sent = sentOf(wish);
    assert.equal(isDue(sent), false);
    assert.equal(told(sent, 3), undefined);
  });

  it('goes on from one that was sent and is not told yet', () => {
    const more = wishOf(pressed(sentOf(wishOf(pressedBy(2, 1))), 2, 1));
    assert.deepEqual([more.count, isDue(more)], [4, true]);
    assert.deepEqual(told(more, 3), more);
    assert.equal(told(sentOf(more), 4), undefined);
  });

  it('that takes back what was sent is sent, too, whatever the cluster has told by then', () => {
    const back = wishOf(pressed(sentOf(wishOf(pressedBy(2, 1))), 2, -1));
    assert.deepEqual([back.count, isDue(back)], [2, true]);
    const sent = sentOf(back);
    assert.deepEqual(told(sent, 3), sent);
    assert.equal(told(sent, 2), undefined);
  });

  it('gives way to what somebody else makes of it', () => {
    const wish = wishOf(pressedBy(2, 1));
    assert.equal(told(wish, 10), undefined);
    assert.equal(told(sentOf(wish), 10), undefined);
  });
});
