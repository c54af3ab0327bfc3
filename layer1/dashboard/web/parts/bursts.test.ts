import assert from 'node:assert/strict';
import { it } from 'node:test';
import { Bursts } from './bursts.ts';

it('what comes in a burst is drawn at once, the newest of too much, and nothing of what was cleared', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const drawn: (readonly number[])[] = [];
  const bursts = new Bursts<number>((items) => drawn.push(items), 3);
  for (const one of [1, 2]) bursts.add(one);
  assert.deepEqual(drawn, []);
  t.mock.timers.tick(100);
  assert.deepEqual(drawn.splice(0), [[1, 2]]);
  for (let one = 0; one < 100; one += 1) bursts.add(one);
  t.mock.timers.tick(100);
  assert.ok(drawn[0] !== undefined && drawn[0].length < 6);
  assert.equal(drawn.splice(0)[0]?.at(-1), 99);
  bursts.add(1);
  bursts.clear();
  t.mock.timers.tick(1_000);
  assert.deepEqual(drawn, []);
  bursts.add(2);
  t.mock.timers.tick(100);
  assert.deepEqual(drawn, [[2]]);
});
