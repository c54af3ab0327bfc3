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
    by('ann', '3', { action: 'PATCH /apps/:app', outcome: 'unchanged', changes: [] }),
    by('ann', '4', { outcome: 'critical', changes: [] }),
    by('ann', '5', { ...done, outcome: 'timeout', error: 'late' }),
  ];
  assert.deepEqual(superfluous(entries, 3).toSorted(), ['2', '3']);
  assert.deepEqual(superfluous(entries, 2).toSorted(), ['1', '2', '3'], 'what is no request, or was begun, is more');
});

test('what changed nothing keeps a quarter of the room, by whoever has least of it', () => {
  const work = Array.from({ length: 100 }, (_, at) => by('root', `w${at}`, done));
  const flood = Array.from({ length: 60 }, (_, at) => by('eve', `f${at}`, idle));
  const gone = new Set(superfluous([by('ann', 'a', idle), ...flood, ...work], 40));
  assert.equal([...gone].filter((key) => key.startsWith('w')).length, 70);
  assert.deepEqual(gone.has('a'), false);
  assert.equal(superfluous([...work, by('ann', 'a', idle)], 100).includes('a'), false, 'on a busy cluster, too');
  assert.deepEqual(superfluous([by('ann', 'a', idle), by('ann', 'b', idle), by('ann', 'w', done)], 2), ['a']);
});

test('what was carried out on a host, or handed out, is kept as what was changed is', () => {
  const unchanged = (key: string, action: string) => by('ann', key, { action, outcome: 'unchanged', changes: [] });
  const elsewhere = ['DELETE /volumes/:volume', 'DELETE /apps/:app/jobs/:job', 'POST /backups/download'];
  const kept = elsewhere.map((action, at) => unchanged(`k${at}`, action));
  const idles = ['PUT /hosts/:host/cordon', 'POST /api/:group/:version/:kind'].map((action, at) =>
    unchanged(`i${at}`, action),
  );
  assert.deepEqual(superfluous([...kept, ...idles], 3), ['i0', 'i1']);
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
