import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { Repeats } from './repeats.ts';

function counting({ windowMs = 60_000, maxKinds = 10 } = {}) {
  const told: string[] = [];
  const repeats = new Repeats<string>({ windowMs, maxKinds, tell: (one, count) => told.push(`${one} ${count}`) });
  const take = (kind: string, one: string, nowMs: number, lines = 1) => repeats.hasOwnLine(kind, one, { lines, nowMs });
  return { told, repeats, take };
}

test('the first of a kind have lines, the others are counted with the last of these', () => {
  const { told, repeats, take } = counting();
  assert.deepEqual(
    [1, 2, 3, 4, 5].map((nowMs) => take('a', `a${nowMs}`, nowMs, 2)),
    [true, true, false, false, false],
  );
  assert.deepEqual([take('b', 'b1', 6), take('c', 'c1', 6), take('c', 'c2', 6)], [true, true, false]);
  assert.deepEqual(told, []);
  repeats.end();
  assert.deepEqual(told, ['a2 4', 'c1 2'], 'what came once has been told');
  repeats.end();
  assert.equal(told.length, 2, 'once');
});

test('after its time a kind begins anew, also where the clock was put back', () => {
  const { told, take } = counting();
  assert.deepEqual([take('a', 'a1', 100_000), take('a', 'a2', 159_999)], [true, false]);
  assert.deepEqual([take('a', 'a3', 160_000), take('a', 'a4', 160_001)], [true, false]);
  assert.equal(take('a', 'a5', 1_000), true);
  assert.deepEqual(told, ['a1 2', 'a3 2']);
});

test('what nobody follows is told once its time is over', async () => {
  const { told, take } = counting({ windowMs: 20 });
  for (const one of ['a1', 'a2', 'a3']) take('a', one, 1_000);
  await waitFor(async () => told.length > 0, { what: 'the count', deadlineMs: 60_000, intervalMs: 5 });
  assert.deepEqual(told, ['a1 3']);
});

test('of too many kinds the oldest is told and forgotten', () => {
  const { told, take } = counting({ maxKinds: 2 });
  for (const one of ['a1', 'a2']) take('a', one, 1);
  for (const kind of ['b', 'c']) take(kind, `${kind}1`, 2);
  assert.deepEqual(told, ['a1 2']);
  assert.equal(take('b', 'b2', 3), false);
  assert.equal(take('a', 'a3', 3), true);
});
