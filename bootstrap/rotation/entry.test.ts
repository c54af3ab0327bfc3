import assert from 'node:assert/strict';
import { test } from 'node:test';
import { audit } from '@flynn/controller/audit/api';
import { startTestController } from '@flynn/controller/testing';
import { tellRotation } from './entry.ts';
import { beginning } from './rotation.ts';

test('the audit trail has one entry of a change of the root key, however often its steps are done, and no key', async () => {
  await using world = await startTestController({ hosts: 0, hasWorker: false });
  const { store, client } = world;
  const told = async () =>
    (await client.call(audit.list, {})).map(({ actor, action, params, from, outcome }) => [
      actor.name,
      action.replaceAll(/:(\w+)/g, (_, name: string) => params[name] ?? ''),
      from.address,
      outcome,
    ]);
  const host = { hostId: 'h1', address: '192.0.2.7' };
  await tellRotation(store, host, 'begun');
  assert.deepEqual(await told(), []);
  const rootKeyChange = { ...beginning(), former: 'the-former-key', isClosing: false };
  await tellRotation(store, { ...host, rootKeyChange }, 'begun');
  await tellRotation(store, { ...host, rootKeyChange }, 'begun');
  assert.deepEqual(await told(), [['root', 'rotate the root key on h1', '192.0.2.7', 'begun']]);
  await tellRotation(store, { ...host, rootKeyChange: { ...rootKeyChange, isClosing: true } }, 'done');
  assert.deepEqual(await told(), [['root', 'rotate the root key on h1', '192.0.2.7', 'done']]);
  assert.doesNotMatch(JSON.stringify(await client.call(audit.list, {})), /former-key/);
  const sealingKeyChange = { ...beginning(), next: 'the-next-key' };
  await tellRotation(store, { ...host, sealingKeyChange }, 'begun');
  await tellRotation(store, { ...host, sealingKeyChange }, 'done');
  assert.equal((await told()).length, 2);
  assert.deepEqual((await told())[0], ['root', 'rotate the sealing key on h1', '192.0.2.7', 'done']);
  assert.doesNotMatch(JSON.stringify(await client.call(audit.list, {})), /next-key/);
});
