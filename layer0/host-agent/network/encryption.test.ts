import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { openTestStore } from '@flynn/store/testing';
import {
  type Encryption,
  encryptionKey,
  encryptionOf,
  isEncrypted,
  readEncryption,
  readEncryptionState,
  restoreEncryption,
  writeEncryption,
} from './encryption.ts';

const { signal } = new AbortController();
const at = { now: 0, signal };

test('it goes one step at a time, in either direction; off leaves nothing', async () => {
  await using store = openTestStore();
  assert.equal(await readEncryption(store, signal), 'off');
  for (const step of ['ready', 'sent', 'on', 'sent', 'ready'] as const) {
    await writeEncryption(store, step, at);
    assert.equal(await readEncryption(store, signal), step);
  }
  await writeEncryption(store, 'ready', at);
  await writeEncryption(store, 'off', at);
  assert.equal(await store.get(encryptionKey), undefined);
});

test('a step that is left out is refused, and so is who comes second', async () => {
  await using store = openTestStore();
  await assert.rejects(writeEncryption(store, 'on', at), (error) => hasCode(error, 'conflict'));
  const late = {
    get: async () => undefined,
    transact: store.transact.bind(store),
  };
  await writeEncryption(store, 'ready', at);
  await assert.rejects(writeEncryption(late, 'ready', at), (error) => hasCode(error, 'conflict'));
});

test('when a change took its last step is known until it is through', async () => {
  await using store = openTestStore();
  const since = (now: number): string => new Date(now).toISOString();
  for (const [now, step] of (['ready', 'sent', 'sent', 'ready'] as const).entries()) {
    await writeEncryption(store, step, { now, signal });
    assert.deepEqual(await readEncryptionState(store, signal), { word: step, since: since(now) });
  }
  await writeEncryption(store, 'off', at);
  assert.deepEqual(await readEncryptionState(store, signal), { word: 'off' });
  assert.deepEqual((await store.list('/flynn/network/')).entries, []);
  // By a version that does not note it.
  await store.transact({ then: [{ put: encryptionKey, value: '"ready"' }] });
  assert.deepEqual(await readEncryptionState(store, signal), { word: 'ready', since: undefined });
});

test('a word that cannot be read is not off: hosts keep to what they knew, and send nothing in clear where they knew nothing', async () => {
  await using store = openTestStore();
  for (const value of ['"quantum"', '{"encryption":"on"}', 'no JSON', '']) {
    await store.transact({ then: [{ put: encryptionKey, value }] });
    assert.equal(await readEncryption(store, signal), 'unreadable', value);
  }
  const known: Encryption[] = ['off', 'ready', 'sent', 'on'];
  for (const last of known) {
    assert.equal(encryptionOf('unreadable', last), last);
    for (const word of known) assert.equal(encryptionOf(word, last), word);
  }
  assert.equal(encryptionOf('unreadable', undefined), 'on');
  assert.ok(isEncrypted('unreadable'));
  // What the hosts keep to may be any, and is what is written.
  await writeEncryption(store, 'on', at);
  assert.equal(await readEncryption(store, signal), 'on');
});

test('a restored cluster is encrypted, unless people have said something since', async () => {
  await using store = openTestStore();
  assert.equal(await restoreEncryption(store, signal), true);
  assert.deepEqual(await readEncryptionState(store, signal), { word: 'on' });
  await writeEncryption(store, 'sent', at);
  assert.equal(await restoreEncryption(store, signal), false);
  assert.equal(await readEncryption(store, signal), 'sent');
});
