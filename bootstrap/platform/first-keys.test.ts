import assert from 'node:assert/strict';
import { test } from 'node:test';
import { tokens, users } from '@flynn/controller/access/api';
import { createControllerClient } from '@flynn/controller/client';
import { keys } from '@flynn/controller/keys/api';
import { startTestController } from '@flynn/controller/testing';
import { addFirstKeys, takesFirstKeys } from './first-keys.ts';
import { Platform } from './platform.ts';

const [own, anns] = ['A', 'B'].map((digit) => `ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI${digit.repeat(43)} at@host1`);

test('a cluster takes keys until it is there once, or is back from a backup', () => {
  assert.equal(takesFirstKeys({}), true);
  for (const sample of ['live', 'gone'] as const) assert.equal(takesFirstKeys({ sample }), false);
  assert.equal(takesFirstKeys({ sample: 'live' }, false), true);
  assert.equal(takesFirstKeys({ sample: 'live' }, true), false);
});

test('a key that is a user’s stays theirs, and does not keep the cluster from coming up', async () => {
  assert.ok(own !== undefined && anns !== undefined);
  await using world = await startTestController({ hosts: 0, hasWorker: false });
  const { id } = await world.client.call(users.create, { body: { name: 'ann', role: 'admin' } });
  const { token } = await world.client.call(tokens.create, { body: { name: 'laptop', user: 'ann' } });
  await createControllerClient({ baseUrl: world.url, key: token }).call(keys.create, { body: { publicKey: anns } });
  await addFirstKeys(new Platform(world.client), [anns, own]);
  const owners = (await world.client.call(keys.list, {})).map(
    ({ publicKey, userId }) => `${publicKey} ${userId ?? 'the cluster’s'}`,
  );
  const text = (line: string) => line.split(' ').slice(0, 2).join(' ');
  assert.deepEqual(owners.sort(), [`${text(own)} the cluster’s`, `${text(anns)} ${id}`]);
});
