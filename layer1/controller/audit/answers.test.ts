import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { createMemoryStore } from '@flynn/store/memory';
import type { Store } from '@flynn/store/store';
import { tokens, users } from '../access/api.ts';
import { apps, deployments, jobs, releases } from '../api.ts';
import { routing } from '../routes/api.ts';
import { createControllerClient } from '../client.ts';
import { startTestController } from '../testing.ts';
import { answersRoot, pruneAnswers } from './answers.ts';

const inShop = { params: { app: 'shop' } };
const withKey = (key: string) => ({ headers: { 'idempotency-key': key } });

/** For a controller that goes while its store stays. */
function withoutEnd(store: Store): Store {
  return {
    get: (key, options) => store.get(key, options),
    list: (prefix, options) => store.list(prefix, options),
    transact: (transaction, options) => store.transact(transaction, options),
    watch: (prefix, options) => store.watch(prefix, options),
    grantLease: (options) => store.grantLease(options),
    compact: (revision, options) => store.compact(revision, options),
    close: async () => {},
    [Symbol.asyncDispose]: async () => {},
  };
}

test('whoever asks again gets the first answer, and nothing is made twice', async () => {
  await using world = await startTestController();
  const { client } = world;
  const first = await client.call(apps.create, { body: {} }, withKey('a'));
  assert.deepEqual(await client.call(apps.create, { body: {} }, withKey('a')), first);
  assert.notEqual((await client.call(apps.create, { body: {} }, withKey('b'))).id, first.id);
  assert.equal((await client.call(apps.list, {})).length, 2);

  const { release } = await world.deployApp('shop', { web: {} });
  const same = async <T>(call: () => Promise<T>) => assert.deepEqual(await call(), await call());
  await same(() => client.call(releases.create, { ...inShop, body: { env: { A: '1' } } }, withKey('release')));
  await same(() => client.call(jobs.run, { ...inShop, body: { command: ['true'] } }, withKey('job')));
  await same(() => client.call(routing.create, { ...inShop, body: { type: 'tcp' } }, withKey('route')));
  await same(() =>
    client.call(deployments.create, { ...inShop, body: { releaseId: release.id } }, withKey('deployment')),
  );
  await same(() =>
    client.call(releases.createArtifact, { body: { type: 'image', image: { name: 'x' } } }, withKey('artifact')),
  );
  assert.equal((await client.call(releases.list, inShop)).length, 2);
});

test('another body with the same key is a conflict; another person has keys of their own', async () => {
  await using world = await startTestController({ hosts: 0, hasWorker: false });
  const { client } = world;
  const first = await client.call(apps.create, { body: { name: 'one' } }, withKey('a'));
  await assert.rejects(client.call(apps.create, { body: { name: 'two' } }, withKey('a')), (error) =>
    hasCode(error, 'conflict'),
  );
  await client.call(users.create, { body: { name: 'ann', role: 'admin' } });
  const { token } = await client.call(tokens.create, { body: { name: 'x', user: 'ann' } });
  await using ann = createControllerClient({ baseUrl: world.url, key: token });
  assert.notEqual((await ann.call(apps.create, { body: { name: 'two' } }, withKey('a'))).id, first.id);
  await assert.rejects(client.call(apps.create, { body: {} }, withKey('x'.repeat(300))), (error) =>
    hasCode(error, 'invalid'),
  );
});

test('a hundred at once, through two controllers on one store, make one', async () => {
  const store = createMemoryStore();
  await using one = await startTestController({ store, hosts: 0, hasWorker: false });
  await using two = await startTestController({ store, hosts: 0, hasWorker: false });
  const answers = await Promise.all(
    Array.from({ length: 100 }, (_, index) =>
      (index % 2 === 0 ? one : two).client.call(apps.create, { body: {} }, withKey('same')),
    ),
  );
  assert.equal(new Set(answers.map(({ id }) => id)).size, 1);
  assert.equal((await one.client.call(apps.list, {})).length, 1);
});

test('it holds for a day, also for the controller after this one, and is forgotten then', async () => {
  const store = createMemoryStore();
  let first: string;
  {
    await using world = await startTestController({ store: withoutEnd(store), hosts: 0, hasWorker: false });
    first = (await world.client.call(apps.create, { body: {} }, withKey('a'))).id;
  }
  await using world = await startTestController({ store, hosts: 0, hasWorker: false });
  assert.equal((await world.client.call(apps.create, { body: {} }, withKey('a'))).id, first);
  await store.transact({ then: [{ put: 'seat', value: '1' }] });
  const epoch = { key: 'seat', modRevision: (await store.get('seat'))?.modRevision ?? 0 };
  const signal = AbortSignal.timeout(60_000);
  await pruneAnswers(store, { nowMs: Date.now() + 23 * 3_600_000, epoch, signal });
  assert.equal((await store.list(answersRoot)).entries.length, 1);
  await pruneAnswers(store, { nowMs: Date.now() + 25 * 3_600_000, epoch, signal });
  assert.equal((await store.list(answersRoot)).entries.length, 0);
});

test('a request that was refused may be sent again once what was in its way is gone', async () => {
  await using world = await startTestController();
  const { client } = world;
  const call = () => client.call(apps.create, { body: { name: 'shop' } }, withKey('a'));
  const blocking = await client.call(apps.create, { body: { name: 'shop' } });
  await assert.rejects(call(), (error) => hasCode(error, 'conflict'));
  await client.call(apps.remove, inShop);
  assert.notEqual((await call()).id, blocking.id);
});

test('a controller that died after it wrote: nothing is written again, and that is said', async () => {
  const store = createMemoryStore();
  await using world = await startTestController({ store, hosts: 0, hasWorker: false });
  const { client } = world;
  const unbroken = store.transact.bind(store);
  // The write goes through; what would have kept the answer does not, as when the process dies.
  store.transact = async (transaction, options) => {
    const isKeeping = transaction.then.some(
      (o) => 'put' in o && o.put.startsWith(answersRoot) && o.value.includes('"done"'),
    );
    if (isKeeping) throw new FlynnError('unavailable', 'gone');
    return unbroken(transaction, options);
  };
  await client.call(apps.create, { body: {} }, withKey('a'));
  store.transact = unbroken;
  assert.equal((await client.call(apps.list, {})).length, 1);
  // A minute later nobody can still be at it.
  const { entries } = await store.list(answersRoot);
  for (const { key, value } of entries) {
    const aged = value.replace(/"at":\d+/, `"at":${Date.now() - 61_000}`);
    await store.transact({ then: [{ put: key, value: aged }] });
  }
  await assert.rejects(client.call(apps.create, { body: {} }, withKey('a')), /carried out, but its answer was lost/);
  assert.equal((await client.call(apps.list, {})).length, 1);
});

test('a token is told once, also to who asks again with the same key', async () => {
  await using world = await startTestController({ hosts: 0, hasWorker: false });
  const call = () => world.client.call(tokens.create, { body: { name: 'x' } }, withKey('a'));
  const { token } = await call();
  await assert.rejects(call(), /holds a secret that is told once/);
  assert.equal((await world.client.call(tokens.list, {})).length, 1);
  const { entries } = await world.store.list('/');
  assert.ok(entries.every(({ value }) => !value.includes(token.slice(20))));
});
