import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { setUp, settled } from '../testing.ts';
import { converse, startDicedBackend, wordsOf } from './pipelines.ts';

const seeds = 500;
/** Who ends in the middle of something gets a second or two; nothing else here has a limit. */
const deadlineMs = 60_000;

test('no connection hangs, wherever backends close and clients that pipeline cut their words or end', async (t) => {
  const { plane, router, port } = await setUp(t, { firstByteMs: 600_000, idleMs: 600_000 });
  const addresses: string[] = [];
  for (let i = 0; i < 3; i += 1) {
    const { address } = await startDicedBackend(t, i);
    addresses.push(address);
    plane.up('web', address);
  }
  await settled(router, addresses);
  const hung: string[] = [];
  let seed = 1;
  const lanes = Array.from({ length: 24 }, async () => {
    while (seed <= seeds) {
      const mine = seed;
      seed += 1;
      const { isOver, answer } = await converse(port, mine, { deadlineMs });
      if (!isOver) hung.push(JSON.stringify({ seed: mine, ...wordsOf(mine), answer }));
    }
  });
  await Promise.all(lanes);
  assert.deepEqual(hung, []);
  await waitFor(() => router.status().backends.every(({ inFlight }) => inFlight === 0), {
    what: 'nothing to be under way',
    deadlineMs: 60_000,
  });
});
