import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startTestController } from '../testing.ts';
import { tokens } from './api.ts';
import { pruneTokens } from './expiry.ts';

const dayMs = 86_400_000;

test('a token goes a week after it expired; one that is good, or good for ever, stays', async () => {
  await using world = await startTestController({ hosts: 0, hasWorker: false });
  for (const [name, expiresInMs] of [
    ['brief', dayMs],
    ['long', 30 * dayMs],
    ['ever', null],
  ] as const) {
    await world.client.call(tokens.create, { body: { name, expiresInMs } });
  }
  await world.store.transact({ then: [{ put: 'seat', value: '1' }] });
  const epoch = { key: 'seat', modRevision: (await world.store.get('seat'))?.modRevision ?? 0 };
  const namesAfter = async (days: number, seat = epoch): Promise<string[]> => {
    await pruneTokens(world.deps, {
      nowMs: Date.now() + days * dayMs,
      epoch: seat,
      signal: AbortSignal.timeout(60_000),
    });
    return (await world.client.call(tokens.list, {})).map(({ name }) => name).sort();
  };
  assert.deepEqual(await namesAfter(7), ['brief', 'ever', 'long']);
  assert.deepEqual(await namesAfter(9, { key: 'seat', modRevision: 1 }), ['brief', 'ever', 'long'], 'without the seat');
  assert.deepEqual(await namesAfter(9), ['ever', 'long']);
  assert.deepEqual(await namesAfter(1_000), ['ever']);
});
