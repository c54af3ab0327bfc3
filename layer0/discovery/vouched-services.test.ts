import { fakeClock } from '@flynn/kit/clock';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { createMemoryStore } from '@flynn/store/memory';
import type { Store } from '@flynn/store/store';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { VouchedServices } from './vouched-services.ts';

const hourMs = 3_600_000;
const until = (what: string, isSo: () => Promise<boolean>) =>
  waitFor(isSo, { what, deadlineMs: 30_000, intervalMs: 5 });

/** A cluster's store, and the time that each of its processes has lived for, which is the same for all. */
function cluster() {
  const store = createMemoryStore();
  const clock = fakeClock();
  const keys = async () => new Map((await store.list('/flynn/cluster/')).entries.map((entry) => [entry.key, entry]));
  const dayIn = async (key: string) => {
    const value = (await keys()).get(`/flynn/cluster/vouched-${key}`)?.value;
    return value === undefined ? undefined : (JSON.parse(value) as { day: number }).day;
  };
  return {
    store,
    clock,
    dayIn,
    dayOf: (service: string) => dayIn(`services/${service}`),
    open: (at: Store = store.connect(), random = 0) =>
      VouchedServices.open({ store: at, log: silentLogger(), clock, random: () => random }),
    entryOf: async (service: string) => (await keys()).get(`/flynn/cluster/vouched-services/${service}`),
    /** One day after the other, each once it has been counted; those who vouch have had their turn. */
    async pass(days: number) {
      for (let passed = 0; passed < days; passed += 1) {
        const before = (await dayIn('day')) ?? 0;
        await until('a day', async () => {
          await clock.advance(hourMs);
          return (await dayIn('day')) === before + 1;
        });
      }
    },
    [Symbol.asyncDispose]: () => store.close(),
  };
}

test('a name is noted with the day, on no lease, and anew each day for as long as somebody vouches for it', async () => {
  await using world = cluster();
  await using vouched = await world.open();
  vouched.vouchFor(['shop-web', 'no name']);
  assert.deepEqual([vouched.has('shop-web'), vouched.has('no name'), vouched.has('blog-web')], [true, false, false]);
  await until('the note', async () => (await world.dayOf('shop-web')) === 0);
  // Each election of etcd's would begin a lease anew: the name would never be free again.
  assert.equal((await world.entryOf('shop-web'))?.lease, undefined);
  for (const day of [1, 2, 3]) {
    await world.pass(1);
    await until('the next note', async () => (await world.dayOf('shop-web')) === day);
  }
});

test('what nobody vouches for is kept for 20 days and then free, while what others vouch for stays', async () => {
  await using world = cluster();
  await using vouched = await world.open();
  vouched.vouchFor(['shop-web', 'blog-web']);
  await until('the notes', async () => (await world.dayOf('blog-web')) === 0);
  vouched.vouchFor(['shop-web']);
  await using other = await world.open();
  await world.pass(20);
  assert.deepEqual([other.has('blog-web'), vouched.has('blog-web')], [true, true]);
  await world.pass(1);
  await until('its end', async () => !other.has('blog-web') && !vouched.has('blog-web'));
  assert.ok(other.has('shop-web'));
});

test('however many count days and vouch for a name, a day is counted once, and the name noted once a day', async () => {
  await using world = cluster();
  const hosts = await Promise.all([0, 0.5, 0.9].map((random) => world.open(world.store.connect(), random)));
  for (const host of hosts) host.vouchFor(['router']);
  await until('the note', async () => (await world.dayOf('router')) === 0);
  const before = (await world.entryOf('router'))?.modRevision ?? 0;
  await world.pass(1);
  await until('the next note', async () => (await world.dayOf('router')) === 1);
  const { revision } = await world.store.list('/');
  // The day itself, and the name.
  assert.equal(revision, before + 2);
  await world.clock.advance(2 * hourMs);
  await world.pass(1);
  await until('the one after', async () => (await world.dayOf('router')) === 2);
  assert.equal((await world.store.list('/')).revision, before + 4);
  for (const host of hosts) await host[Symbol.asyncDispose]();
});

test('a day begins anew for who starts: a cluster that is off, or an agent that starts again and again, ends nothing', async () => {
  await using world = cluster();
  for (let starts = 0; starts < 40; starts += 1) {
    await using vouched = await world.open();
    vouched.vouchFor([]);
    await world.clock.advance(23 * hourMs);
  }
  assert.equal(await world.dayIn('day'), undefined);
});

test('a note that is removed while somebody vouches, or that no store took, is written again', async () => {
  await using world = cluster();
  const own = world.store.connect();
  await using vouched = await world.open(own);
  own.disconnect();
  vouched.vouchFor(['shop-web']);
  assert.ok(vouched.has('shop-web'));
  own.reconnect();
  // Its next attempt is a moment of the real clock away.
  await until('the note', async () => (await world.dayOf('shop-web')) === 0);
  await world.store.transact({ then: [{ delete: '/flynn/cluster/vouched-services/shop-web' }] });
  await until('the note again', async () => (await world.dayOf('shop-web')) === 0);
});

test('what a version to come wrote is closed to others, and neither written over nor removed', async () => {
  await using world = cluster();
  const key = '/flynn/cluster/vouched-services/shop-web';
  await world.store.transact({ then: [{ put: key, value: '{"day":"monday"}' }] });
  await using vouched = await world.open();
  assert.ok(vouched.has('shop-web'));
  vouched.vouchFor(['shop-web', 'blog-web']);
  await until('the other note', async () => (await world.dayOf('blog-web')) === 0);
  await world.pass(22);
  assert.equal((await world.store.get(key))?.value, '{"day":"monday"}');
});
