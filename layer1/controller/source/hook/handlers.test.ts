/** Hooks as they are made, rotated and removed, and who may do that. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { resourceKey } from '@flynn/resource/keys';
import { grants, tokens, users } from '../../access/api.ts';
import { audit } from '../../audit/api.ts';
import { createControllerClient } from '../../client.ts';
import { sources } from '../api.ts';
import { hooks } from './api.ts';
import { deadlineMs, hookVersion, look, makeHook, params, send, startWorld, url } from './hook-fixture.ts';
import { hookType } from './resource.ts';

test('the secret is told once: of it there is nothing in answers and in the trail, and a rotation ends the former', async () => {
  await using world = await startWorld();
  const { hook, secret } = await makeHook(world);
  assert.deepEqual(hook, { url: `http://controller.flynn.localhost/hooks/${world.appId}` });
  const again = world.client.call(hooks.make, { params, body: {} });
  await assert.rejects(again, (error) => hasCode(error, 'conflict') && /--rotate/.test(error.message));
  const { secret: next } = await makeHook(world, { isRotation: true });
  assert.notEqual(next, secret);
  assert.equal((await send(world, { secret })).status, 401);
  assert.equal((await send(world, { secret: next })).status, 200);
  await world.web.trail.flushed();
  const trail = JSON.stringify(await world.client.call(audit.list, {}));
  assert.match(trail, /"type":"source-hook"[^]*"secret":"\[hidden\]"/);
  const shown = [trail, JSON.stringify(await look(world))].join('\n');
  for (const one of [secret, next]) assert.ok(!shown.includes(one) && !shown.includes(one.slice(6)));
  const kept = (await world.store.list('/')).entries.filter(({ value }) => value.includes(next));
  assert.deepEqual(
    kept.map(({ key }) => key),
    [resourceKey(hookType.name, world.appId)],
  );
});

test('a hook ends when it is taken back, and with its source; without a source there is none', async () => {
  await using world = await startWorld();
  const { client } = world;
  const isGone = (secret: string) =>
    waitFor(async () => (await send(world, { secret })).status === 401, { what: 'the hook to end', deadlineMs });
  const { secret } = await makeHook(world);
  await client.call(hooks.remove, { params });
  await isGone(secret);
  assert.equal((await look(world)).hook, undefined);
  const none = (error: unknown) => hasCode(error, 'not_found') && /flynn source hook -a shop/.test(error.message);
  await assert.rejects(client.call(hooks.remove, { params }), none);
  await assert.rejects(client.call(hooks.make, { params, body: { isRotation: true } }), none);
  const second = await makeHook(world);
  await client.call(sources.remove, { params });
  await isGone(second.secret);
  assert.equal(await hookVersion(world), 0);
  const noSource = (error: unknown) => hasCode(error, 'not_found') && /follows no repository/.test(error.message);
  await assert.rejects(client.call(hooks.make, { params, body: {} }), noSource);
  await client.call(sources.put, { params, body: { url } });
  assert.equal((await look(world)).hook, undefined, 'the next one begins without');
});

test('a hook that is made while its source is removed is not there after it', async () => {
  await using world = await startWorld();
  const { store, client } = world;
  const key = resourceKey(hookType.name, world.appId);
  const transact = store.transact.bind(store);
  store.transact = async (transaction, options) => {
    if (!transaction.then.some((operation) => 'put' in operation && operation.put === key)) {
      return transact(transaction, options);
    }
    store.transact = transact;
    await client.call(sources.remove, { params });
    return transact(transaction, options);
  };
  await assert.rejects(client.call(hooks.make, { params, body: {} }), (error) =>
    hasCode(error, 'conflict', 'not_found'),
  );
  assert.equal(await hookVersion(world), 0);
});

test('developers of the app make hooks, and others do not', async () => {
  await using world = await startWorld();
  for (const [name, role] of [
    ['dave', 'developer'],
    ['vera', 'viewer'],
  ] as const) {
    await world.client.call(users.create, { body: { name } });
    await world.client.call(grants.put, { params: { ...params, kind: 'user', name }, body: { role } });
    const { token } = await world.client.call(tokens.create, { body: { name: 'test', user: name } });
    await using person = createControllerClient({ baseUrl: world.url, key: token });
    const asked = person.call(hooks.make, { params, body: {} });
    if (role === 'viewer') await assert.rejects(asked, (error) => hasCode(error, 'denied'));
    else assert.match((await asked).secret, /^whsec_/);
  }
});
