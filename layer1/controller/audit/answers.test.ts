import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
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

/** Of a store: how often somebody has looked whether a request with a key is still under way. */
function looksAt(store: Store): { count: number } {
  const looks = { count: 0 };
  const get = store.get.bind(store);
  store.get = (key, options) => {
    if (key.startsWith(answersRoot)) looks.count += 1;
    return get(key, options);
  };
  return looks;
}

const moreLooks = async (looks: { count: number }) => {
  const { count } = looks;
  await waitFor(() => looks.count >= count + 3, { what: 'it to be looked at', deadlineMs: 15_000, intervalMs: 5 });
};

test('a controller that died after it wrote: nothing is written again, and that is said', async () => {
  const store = createMemoryStore();
  let steadyMs = 0;
  await using world = await startTestController({ store, hosts: 0, hasWorker: false, steadyNow: () => steadyMs });
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
  // By a clock that is an hour behind: it says nothing of how long this one has known it.
  const [kept] = (await store.list(answersRoot)).entries;
  assert.ok(kept !== undefined);
  const value = kept.value.replace(/"at":\d+/, `"at":${Date.now() - 3_600_000}`);
  assert.notEqual(value, kept.value);
  await store.transact({ then: [{ put: kept.key, value }] });
  // It has looked at its start, and does not note more than one every few seconds.
  steadyMs += 5_000;
  const looks = looksAt(store);
  let isOver = false;
  const again = assert
    .rejects(client.call(apps.create, { body: {} }, withKey('a')), /carried out, but its answer was lost/)
    .finally(() => (isOver = true));
  await moreLooks(looks);
  steadyMs += 59_999;
  await moreLooks(looks);
  assert.equal(isOver, false, 'the first may still be at it');
  // A minute later nobody can still be.
  steadyMs += 1;
  await again;
  assert.equal((await client.call(apps.list, {})).length, 1);
});

test('what was only begun is free a minute later, though the clock of whoever began it is far ahead', async () => {
  const store = createMemoryStore();
  let steadyMs = 0;
  await using world = await startTestController({ store, hosts: 0, hasWorker: false, steadyNow: () => steadyMs });
  const { client } = world;
  await client.call(apps.create, { body: {} }, withKey('a'));
  const [kept] = (await store.list(answersRoot)).entries;
  assert.ok(kept !== undefined);
  const { answer: _, ...record } = JSON.parse(kept.value) as Record<string, unknown>;
  const value = JSON.stringify({ ...record, state: 'begun', by: 'who died', at: Date.now() + 3 * 86_400_000 });
  await store.transact({ then: [{ put: kept.key, value }] });
  // It has looked at its start, and does not note more than one every few seconds.
  steadyMs += 5_000;
  const looks = looksAt(store);
  const again = client.call(apps.create, { body: {} }, withKey('a'));
  await moreLooks(looks);
  steadyMs += 60_000;
  await again;
  assert.equal((await client.call(apps.list, {})).length, 2);
});

test('what was left there long ago keeps nobody waiting who asks again, though nothing else has happened since', async () => {
  const store = createMemoryStore();
  {
    await using world = await startTestController({ store: withoutEnd(store), hosts: 0, hasWorker: false });
    await world.client.call(apps.create, { body: {} }, withKey('a'));
  }
  const [kept] = (await store.list(answersRoot)).entries;
  assert.ok(kept !== undefined);
  const { answer: _, ...record } = JSON.parse(kept.value) as Record<string, unknown>;
  let steadyMs = 0;
  let looks = 0;
  const steadyNow = () => {
    looks += 1;
    return steadyMs;
  };
  await using world = await startTestController({ store, hosts: 0, hasWorker: false, steadyNow });
  await waitFor(() => looks > 0, { what: 'the first look', deadlineMs: 15_000, intervalMs: 5 });
  // All that happens from here on. No more than one is noted every few seconds.
  steadyMs += 5_000;
  await store.transact({ then: [{ put: kept.key, value: JSON.stringify({ ...record, state: 'committed' }) }] });
  const before = looks;
  await waitFor(() => looks > before, { what: 'another look', deadlineMs: 15_000, intervalMs: 5 });
  steadyMs += 60_000;
  const asked = looksAt(store);
  await assert.rejects(
    world.client.call(apps.create, { body: {} }, withKey('a')),
    /carried out, but its answer was lost/,
  );
  assert.equal(asked.count, 1, 'answered at once');
});

test('an answer is good as long as it is there, also for a controller whose clock is days ahead', async (t) => {
  const now = Date.now.bind(Date);
  let aheadMs = 0;
  t.mock.method(Date, 'now', () => now() + aheadMs);
  await using world = await startTestController({ hosts: 0, hasWorker: false });
  const { client } = world;
  const first = await client.call(apps.create, { body: {} }, withKey('a'));
  aheadMs = 3 * 86_400_000;
  assert.deepEqual(await client.call(apps.create, { body: {} }, withKey('a')), first);
  assert.equal((await client.call(apps.list, {})).length, 1);
});

test('a release too large to be kept is read again for who asks again', async () => {
  await using world = await startTestController();
  const { client, store } = world;
  await world.deployApp('shop', { web: {} });
  const body = { env: { LARGE: 'x'.repeat(320 * 1024) } };
  const call = () => client.call(releases.create, { ...inShop, body }, withKey('large'));
  const first = await call();
  assert.equal(first.env['LARGE']?.length, 320 * 1024);
  assert.deepEqual(await call(), first);
  assert.equal((await client.call(releases.list, inShop)).length, 2);
  const { entries } = await store.list(answersRoot);
  assert.ok(entries.every(({ value }) => value.length < 1_024));
  // Versions before this one know of secrets alone, and would answer with nothing.
  assert.ok(entries.some(({ value }) => value.includes('"isSecret":true')));
});

test('of another that is too large it is said what it made, and not to take it back', async () => {
  await using world = await startTestController({ hosts: 0, hasWorker: false });
  const { client } = world;
  const large = Object.fromEntries(Array.from({ length: 30 }, (_, n) => [`k${n}`, 'x'.repeat(10_000)]));
  const body = { type: 'image' as const, image: { name: 'x' }, meta: large };
  const call = () => client.call(releases.createArtifact, { body }, withKey('large'));
  const { id } = await call();
  await assert.rejects(call(), {
    code: 'conflict',
    message: new RegExp(`too large to be kept.*read ${id}`),
    detail: { id },
  });
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
