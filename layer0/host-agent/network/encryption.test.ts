import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { openTestStore } from '@flynn/store/testing';
import { encryptionKey, readEncryption, writeEncryption } from './encryption.ts';

const { signal } = new AbortController();

test('it goes one step at a time, in either direction; off leaves nothing', async () => {
  await using store = openTestStore();
  assert.equal(await readEncryption(store, signal), 'off');
  for (const step of ['ready', 'sent', 'on', 'sent', 'ready'] as const) {
    await writeEncryption(store, step, signal);
    assert.equal(await readEncryption(store, signal), step);
  }
  await writeEncryption(store, 'ready', signal);
  await writeEncryption(store, 'off', signal);
  assert.equal(await store.get(encryptionKey), undefined);
});

test('a step that is left out is refused, and so is who comes second', async () => {
  await using store = openTestStore();
  await assert.rejects(writeEncryption(store, 'on', signal), (error) => hasCode(error, 'conflict'));
  const late = {
    get: async () => undefined,
    transact: store.transact.bind(store),
  };
  await writeEncryption(store, 'ready', signal);
  await assert.rejects(writeEncryption(late, 'ready', signal), (error) => hasCode(error, 'conflict'));
});
