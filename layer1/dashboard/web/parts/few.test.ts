import assert from 'node:assert/strict';
import { it } from 'node:test';
import { Few } from './few.ts';

it('few are done at a time, and all of them in turn, whatever becomes of one', async () => {
  const few = new Few(2);
  const begun: number[] = [];
  const ends = [0, 1, 2, 3, 4].map(() => Promise.withResolvers<void>());
  const all = ends.map(({ promise }, at) =>
    few.run(async () => {
      begun.push(at);
      await promise;
    }),
  );
  const settled = Promise.allSettled(all);
  assert.deepEqual(begun, [0, 1]);
  ends[1]?.reject(new Error('it failed'));
  await assert.rejects(all[1] ?? Promise.resolve());
  ends[0]?.resolve();
  await all[0];
  assert.deepEqual(begun, [0, 1, 2, 3]);
  for (const { resolve } of ends) resolve();
  const outcomes = await settled;
  assert.deepEqual(
    outcomes.map(({ status }) => status === 'fulfilled'),
    [true, false, true, true, true],
  );
  assert.equal(begun.length, 5);
});
