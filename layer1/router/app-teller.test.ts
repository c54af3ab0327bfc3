import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FlynnError } from '@flynn/kit/errors';
import { AppTeller } from './app-teller.ts';

test('who asks at the same moment gets the same, later it is counted anew, and what failed is asked for again', async () => {
  let [nowMs, counted, isAway] = [100, 0, false];
  const voice = {
    async appCounts() {
      if (isAway) throw new FlynnError('unavailable', 'one of its processes did not tell');
      counted += 1;
      return { apps: [], unknown: [] };
    },
  };
  const teller = new AppTeller(voice, () => nowMs);
  const [one, other] = await Promise.all([teller.tell(), teller.tell()]);
  assert.deepEqual([one.atMs, other, counted], [100, one, 1]);
  nowMs += 1_000;
  assert.deepEqual([await teller.tell(), counted], [{ ...one, atMs: 1_100 }, 2]);
  nowMs += 1_000;
  isAway = true;
  await assert.rejects(teller.tell(), { code: 'unavailable' });
  isAway = false;
  assert.deepEqual([(await teller.tell()).instance, counted], [one.instance, 3]);
  assert.notEqual((await new AppTeller(voice).tell()).instance, one.instance);
});
