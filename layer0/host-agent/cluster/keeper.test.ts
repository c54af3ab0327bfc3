import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { openTestStore } from '@flynn/store/testing';
import { ensureKeeper, readKeeper, replaceKeeper } from './keeper.ts';

const since = (second: number): string => new Date(second * 1_000).toISOString();

test('of two hosts that would both keep the platform after the same one, one does', async () => {
  await using store = openTestStore();
  const [first, second, third] = ['h1', 'h2', 'h3'].map((hostId, index) => ({ hostId, since: since(index) }));
  assert.ok(first && second && third);
  assert.deepEqual(await ensureKeeper(store, first), first);
  const [seenBySecond, seenByThird] = [await readKeeper(store), await readKeeper(store)];
  await replaceKeeper(store, seenBySecond, second);
  await assert.rejects(replaceKeeper(store, seenByThird, third), (error) => hasCode(error, 'conflict'));
  assert.deepEqual(await readKeeper(store), second);
  await assert.rejects(replaceKeeper(store, undefined, third), (error) => hasCode(error, 'conflict'));
  await replaceKeeper(store, second, third);
  assert.deepEqual(await ensureKeeper(store, first), third);
});
