import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { apps } from '../api.ts';
import { keys } from '../keys/api.ts';
import { createControllerClient } from '../client.ts';
import { actForHeader } from './act-for.ts';
import { grants } from './api.ts';
import { noteEarlierLogins, pushDays, pushesUntil } from './last-login.ts';
import { nonce, startLogin } from './login-fixture.ts';
import { userType } from './resources.ts';
import { serviceToken } from './service-token.ts';

const dayMs = 86_400_000;
const publicKey = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl';

test('only who logs in with the provider that is asked here has keys with an end', () => {
  const identity = { issuer: 'https://id.example.com', subject: 's' };
  const status = { lastLoginAt: '2030-01-01T00:00:00.000Z' };
  const until = Date.parse('2030-01-31T00:00:00.000Z');
  for (const [user, issuer, expected] of [
    [{ spec: { identity }, status }, identity.issuer, until],
    [{ spec: { identity }, status }, 'https://other.example.com', undefined],
    [{ spec: { identity }, status }, undefined, undefined],
    [{ spec: { identity }, status: {} }, identity.issuer, undefined],
    [{ spec: {}, status }, identity.issuer, undefined],
  ] as const) {
    assert.equal(pushesUntil(user, issuer === undefined ? undefined : { issuer }), expected);
  }
});

async function start() {
  const it = await startLogin();
  const { world, provider } = it;
  const receiver = createControllerClient({ baseUrl: world.url, key: serviceToken(world.userKey, 'git-receiver') });
  return {
    world,
    logIn: () => it.logIn(provider.sign({ nonce })),
    /** As a fetch or a push with that key begins. */
    comeWith: (fingerprint: string) =>
      receiver.call(apps.get, { params: { app: 'shop' } }, { headers: { [actForHeader]: fingerprint } }),
    async [Symbol.asyncDispose]() {
      await receiver.close();
      await it[Symbol.asyncDispose]();
    },
  };
}

test('an SSH key pushes for as long after its owner’s last login as it is told, and from the next login on again', async () => {
  await using it = await start();
  const { world, logIn, comeWith } = it;
  const { resources } = world.deps;
  const signal = AbortSignal.timeout(60_000);
  await world.client.call(apps.create, { body: { name: 'shop' } });
  const first = await logIn();
  const user = async () => resources.lookup(userType, first.user, { signal });
  await world.client.call(grants.put, {
    params: { app: 'shop', kind: 'user', name: first.user },
    body: { role: 'developer' },
  });
  await using ann = createControllerClient({ baseUrl: world.url, key: first.token });
  const { fingerprint } = await ann.call(keys.create, { body: { publicKey } });
  assert.equal((await comeWith(fingerprint)).name, 'shop');
  const noted = await user();
  await logIn();
  assert.equal((await user()).revision, noted.revision, 'a login a moment later is not written down');

  const agoMs = (days: number) => new Date(Date.now() - days * dayMs).toISOString();
  const lastLogin = async (lastLoginAt: string) => {
    await resources.updateStatus(userType, (await user()).id, () => ({ lastLoginAt }), { signal });
  };
  await lastLogin(agoMs(pushDays - 1));
  assert.equal((await comeWith(fingerprint)).name, 'shop');
  await lastLogin(agoMs(pushDays + 1));
  const isRefused = (error: unknown) =>
    hasCode(error, 'denied') && error.message.includes(`for ${pushDays} days after that: run "flynn login"`);
  // Memory hears of it in its own time: a refusal is asked of the store, a yes is not.
  const refused = () =>
    comeWith(fingerprint).then(
      () => undefined,
      (error: unknown) => error,
    );
  const told = await waitFor(refused, { what: 'the refusal', deadlineMs: 30_000, intervalMs: 5 });
  assert.ok(isRefused(told), String(told));
  await logIn();
  assert.equal((await comeWith(fingerprint)).name, 'shop');
});

test('whose last login a version before did not write down has as long from now on, and loses nothing at once', async () => {
  await using it = await start();
  const { world, logIn } = it;
  const { resources, store } = world.deps;
  const signal = AbortSignal.timeout(60_000);
  const { id } = await resources.lookup(userType, (await logIn()).user, { signal });
  await resources.create(userType, { spec: { name: 'added' } }, { signal });
  await resources.updateStatus(userType, id, () => ({}), { signal });
  await store.transact({ then: [{ put: 'seat', value: '1' }] });
  const epoch = { key: 'seat', modRevision: (await store.get('seat'))?.modRevision ?? 0 };
  const noted = async () => (await resources.list(userType, { signal })).map(({ status }) => status.lastLoginAt);
  await noteEarlierLogins(world.deps, { nowMs: 0, epoch: { key: 'seat', modRevision: 1 }, signal });
  assert.deepEqual(await noted(), [undefined, undefined], 'without the seat');
  await noteEarlierLogins(world.deps, { nowMs: 0, epoch, signal });
  await noteEarlierLogins(world.deps, { nowMs: dayMs, epoch, signal });
  assert.deepEqual(new Set(await noted()), new Set(['1970-01-01T00:00:00.000Z', undefined]));
});

test('two logins at once both come in', async () => {
  await using it = await start();
  const { world, logIn } = it;
  const signal = AbortSignal.timeout(60_000);
  const { user } = await logIn();
  const { id } = await world.deps.resources.lookup(userType, user, { signal });
  await world.deps.resources.updateStatus(userType, id, () => ({}), { signal });
  const both = await Promise.all([logIn(), logIn(), logIn()]);
  assert.ok(both.every((one) => one.user === user));
});
