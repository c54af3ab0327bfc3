import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FreshWork } from './fresh-work.ts';
import { waitFor } from './retry.ts';

const signal = AbortSignal.timeout(60_000);

test('who comes while somebody looks has the next look, with all others who do', async () => {
  const looks: PromiseWithResolvers<number>[] = [];
  const work = new FreshWork(() => {
    const look = Promise.withResolvers<number>();
    looks.push(look);
    return look.promise;
  });
  const begun = async (count: number) =>
    waitFor(() => looks.length === count, { what: `look ${count}`, deadlineMs: 30_000, intervalMs: 1 });
  const first = work.run(signal);
  await begun(1);
  const later = [work.run(signal), work.run(signal), work.run(signal)];
  looks[0]?.resolve(1);
  assert.equal(await first, 1);
  await begun(2);
  const last = work.run(signal);
  looks[1]?.resolve(2);
  assert.deepEqual(await Promise.all(later), [2, 2, 2]);
  await begun(3);
  looks[2]?.resolve(3);
  assert.equal(await last, 3);
});

test('what fails is told to those who wait for it alone, and who leaves ends it for nobody', async () => {
  let looks = 0;
  const work = new FreshWork(async () => {
    looks += 1;
    if (looks === 1) throw new Error('broken');
    return looks;
  });
  await assert.rejects(work.run(signal), /broken/);
  assert.equal(await work.run(signal), 2);
  const leaving = new AbortController();
  const left = work.run(leaving.signal);
  const stays = work.run(signal);
  leaving.abort(new Error('gone'));
  await assert.rejects(left);
  assert.equal(await stays, 3);
});
