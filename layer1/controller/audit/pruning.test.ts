import assert from 'node:assert/strict';
import { test } from 'node:test';
import { superfluous } from './pruning.ts';

const idle = { outcome: 'not_found', error: 'no', changes: [] };
const done = { outcome: 'done', changes: [{ type: 'app', id: 'a', action: 'update' }] };
const by = (userId: string, key: string, what: object) => ({
  key,
  value: JSON.stringify({ actor: { kind: 'user', name: userId, userId }, ...what }),
});

test('there is nothing too much up to as many as are kept', () => {
  const entries = [by('ann', '1', done), by('ann', '2', idle)];
  assert.deepEqual(superfluous(entries, 2), []);
  assert.deepEqual(superfluous([], 0), []);
  assert.deepEqual(superfluous(entries, 0), ['2', '1']);
});

test('what changed nothing goes before all that did, however old that is', () => {
  const entries = [
    by('ann', '1', done),
    by('eve', '2', idle),
    by('ann', '3', { outcome: 'unchanged', changes: [] }),
    by('ann', '4', { outcome: 'critical', changes: [] }),
    by('ann', '5', { ...done, outcome: 'timeout', error: 'late' }),
  ];
  assert.deepEqual(superfluous(entries, 3).toSorted(), ['2', '3']);
  assert.deepEqual(superfluous(entries, 2).toSorted(), ['1', '2', '3'], 'what is no request, or was begun, is more');
});

test('whoever has most loses the oldest of theirs', () => {
  const others = ['ann', 'bob'].flatMap((who) => [1, 2].map((at) => by(who, `${who}${at}`, done)));
  const flood = Array.from({ length: 50 }, (_, at) => by('eve', `eve${at}`, done));
  const gone = superfluous([...others, ...flood], 10);
  assert.deepEqual(
    gone,
    Array.from({ length: 44 }, (_, at) => `eve${at}`),
  );
  assert.deepEqual(superfluous([...flood, ...others], 3).length, 51);
});

test('what cannot be read is kept as any other, and exactly as many go as are too many', () => {
  const broken = { key: 'x', value: 'nonsense' };
  assert.deepEqual(superfluous([broken, by('ann', '1', idle)], 1), ['1']);
  const names = ['ann', 'bob', 'eve'];
  const entries = Array.from({ length: 40 }, (_, at) => {
    const who = names[(at * at) % 3] ?? '';
    return by(who, `${at}`, at % 4 === 0 ? done : idle);
  });
  for (let keep = 0; keep <= entries.length; keep += 1) {
    assert.equal(new Set(superfluous(entries, keep)).size, entries.length - keep, `${keep}`);
  }
});
