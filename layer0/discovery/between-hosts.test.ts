/** Instances that go from one host to another, each with a registry of its own. */
import { FlynnError } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { createMemoryStore } from '@flynn/store/memory';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createRegistry, instanceKey } from './store-registry.ts';

const log = silentLogger();

/** Two hosts' registries, each with a connection of its own. */
async function twoHosts() {
  let nowMs = 0;
  const store = createMemoryStore({ now: () => nowMs });
  const [atA, atB] = [store.connect(), store.connect()];
  const a = await createRegistry({ store: atA, log });
  const b = await createRegistry({ store: atB, log });
  const isKnown = (address: string | undefined) => () =>
    [a, b].every((registry) => registry.instances('web')[0]?.address === address);
  return {
    a,
    b,
    atA,
    store,
    until: (address: string | undefined) =>
      waitFor(isKnown(address), { what: address ?? 'nobody', deadlineMs: 30_000, intervalMs: 5 }),
    /** What A is about to put back when it hears that an instance is gone is there afterwards. */
    untilAHasWritten: async () => {
      await waitFor(() => a.instances('web').length === 0, { what: 'A to hear', deadlineMs: 30_000, intervalMs: 5 });
      for (const id of ['x', 'y', 'z']) {
        await a.register({ service: 'later', id, address: 'x:80' });
        await a.deregister('later', id);
      }
    },
    pass: (ms: number) => {
      nowMs += ms;
      store.expireLeases();
    },
    async [Symbol.asyncDispose]() {
      await a[Symbol.asyncDispose]();
      await b[Symbol.asyncDispose]();
      await store.close();
    },
  };
}

const heard = { ttlSeconds: 300 };
const addressed = (address: string) => ({ service: 'web', id: 'a', address });

test('who moved to another host and left there is gone: the former host restores neither it nor its former address', async () => {
  await using hosts = await twoHosts();
  for (const [before, after] of [
    ['old:80', 'new:80'],
    ['same:80', 'same:80'],
  ] as const) {
    await hosts.a.register(addressed(before), heard);
    await hosts.until(before);
    await hosts.b.register(addressed(after), heard);
    await hosts.until(after);
    await hosts.b.deregister('web', 'a');
    await hosts.untilAHasWritten();
    await hosts.until(undefined);
    assert.deepEqual((await hosts.store.list('/flynn/discovery/')).entries, []);
  }
});

test('one that is taken back at a host where nobody announced it is gone as well, and can come back by the former one', async () => {
  await using hosts = await twoHosts();
  await hosts.a.register(addressed('a:80'), heard);
  await hosts.until('a:80');
  await hosts.b.deregister('web', 'a');
  await hosts.untilAHasWritten();
  await hosts.until(undefined);
  await hosts.a.register(addressed('a:80'), heard);
  await hosts.until('a:80');
});

test('one whose lease is lost is put back, for it was taken back by nobody', async () => {
  await using hosts = await twoHosts();
  await hosts.a.register(addressed('a:80'), heard);
  await hosts.until('a:80');
  hosts.atA.disconnect();
  hosts.pass(400_000);
  const isGone = () => hosts.b.instances('web').length === 0;
  await waitFor(isGone, { what: 'its expiry', deadlineMs: 30_000, intervalMs: 5 });
  hosts.atA.reconnect();
  await hosts.until('a:80');
});

test('one that goes to another host and back runs out there, however late the watch tells that it was elsewhere', async () => {
  await using store = createMemoryStore();
  const told = Promise.withResolvers<void>();
  let isHeld = false;
  const atB = store.connect();
  const watch = atB.watch.bind(atB);
  atB.watch = async function* (...args) {
    for await (const batch of watch(...args)) {
      if (isHeld) await told.promise;
      yield batch;
    }
  };
  await using a = await createRegistry({ store: store.connect(), log });
  await using b = await createRegistry({ store: atB, log });
  await b.register(addressed('before:80'), { ttlSeconds: 1 });
  isHeld = true;
  await a.register(addressed('a:80'), { ttlSeconds: 60 });
  const back = b.register(addressed('b:80'), { ttlSeconds: 1 });
  const isBack = async () => (await store.get(instanceKey('web', 'a')))?.value.includes('b:80') === true;
  await waitFor(isBack, { what: 'it to be back', deadlineMs: 30_000, intervalMs: 5 });
  told.resolve();
  assert.equal((await back).address, 'b:80');
  // Nobody renews it.
  const isGone = async () => (await store.get(instanceKey('web', 'a'))) === undefined;
  await waitFor(isGone, { what: 'its end', deadlineMs: 30_000 });
  await waitFor(() => a.instances('web').length === 0, { what: 'A to know', deadlineMs: 30_000, intervalMs: 5 });
});

test('what did not get through is not put once another host has it: it neither takes its place nor removes it', async () => {
  await using hosts = await twoHosts();
  await hosts.a.register(addressed('old:80'), heard);
  await hosts.until('old:80');
  const transact = hosts.atA.transact.bind(hosts.atA);
  const isAsked = Promise.withResolvers<void>();
  const fails = Promise.withResolvers<void>();
  hosts.atA.transact = async () => {
    isAsked.resolve();
    await fails.promise;
    throw new FlynnError('timeout', 'the store did not answer');
  };
  const failing = assert.rejects(hosts.a.register(addressed('a:80'), heard), { code: 'timeout' });
  await isAsked.promise;
  await hosts.b.register(addressed('b:80'), heard);
  await hosts.until('b:80');
  hosts.atA.transact = transact;
  fails.resolve();
  await failing;
  // Behind what A has still to do about it.
  for (const id of ['x', 'y', 'z']) await hosts.a.register({ service: 'later', id, address: 'x:80' }, heard);
  assert.match((await hosts.store.get(instanceKey('web', 'a')))?.value ?? '', /b:80/);
});

test('what agents vouch for every host knows, also when nobody of it is there and the agent has gone', async () => {
  await using hosts = await twoHosts();
  hosts.a.vouchFor(['shop-web']);
  const isKnown = () => hosts.b.isVouchedFor('shop-web');
  await waitFor(isKnown, { what: 'the other host to know', deadlineMs: 30_000, intervalMs: 5 });
  assert.ok(!hosts.b.isVouchedFor('blog-web'));
  await hosts.a[Symbol.asyncDispose]();
  await hosts.atA.close();
  hosts.pass(365 * 24 * 3_600_000);
  await using later = await createRegistry({ store: hosts.store, log });
  assert.ok(later.isVouchedFor('shop-web'));
});
