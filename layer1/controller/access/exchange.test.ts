/** Tokens that programs one logs in with are given instead of one's own, and links that are good for that once. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { createMemoryStore } from '@flynn/store/memory';
import { apps } from '../api.ts';
import { createControllerClient } from '../client.ts';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';
import { self, tokens, users } from './api.ts';

const hourMs = 3_600_000;
let world: TestController;

before(async () => {
  world = await startTestController({ hosts: 0 });
  await world.client.call(users.create, { body: { name: 'ann', role: 'developer' } });
  await world.client.call(apps.create, { body: { name: 'shop' } });
});
after(() => world[Symbol.asyncDispose]());

function clientOf(key: string) {
  return createControllerClient({ baseUrl: world.url, key });
}

const isRefused = (code: 'denied' | 'unauthenticated') => (error: unknown) => hasCode(error, code);
const body = { name: 'dashboard', expiresInMs: 12 * hourMs };

test('a link opens nothing, and is exchanged once for a token as its maker has it', async () => {
  const made = await world.client.call(tokens.create, {
    body: { name: 'browser', user: 'ann', role: 'viewer', apps: ['shop'], expiresInMs: 8 * hourMs, isLink: true },
  });
  assert.equal(made.isLink, true);
  const lifeMs = Date.parse(made.expiresAt ?? '') - Date.parse(made.createdAt);
  assert.ok(lifeMs > 9 * 60_000 && lifeMs <= 10 * 60_000, 'it is opened at once or not at all');
  await using link = clientOf(made.token);
  for (const ask of [
    () => link.call(self.get, {}),
    () => link.call(apps.list, {}),
    () => link.call(tokens.create, { body: { name: 'x' } }),
    () => link.call(tokens.list, {}),
  ]) {
    await assert.rejects(ask, isRefused('denied'));
  }

  const given = await link.call(tokens.exchange, { body });
  assert.deepEqual([given.user, given.role, given.apps, given.isLink], ['ann', 'viewer', ['shop'], undefined]);
  const leftMs = Date.parse(given.expiresAt ?? '') - Date.now();
  assert.ok(leftMs > 7 * hourMs && leftMs <= 8 * hourMs, 'no longer than was said when the link was made');
  await using browser = clientOf(given.token);
  assert.equal((await browser.call(self.get, {})).name, 'ann');
  await assert.rejects(link.call(tokens.exchange, { body }), isRefused('unauthenticated'));
});

test('of two who have a link one gets in', async () => {
  const made = await world.client.call(tokens.create, { body: { name: 'browser', isLink: true } });
  await using link = clientOf(made.token);
  const tries = await Promise.allSettled([1, 2, 3].map(() => link.call(tokens.exchange, { body })));
  assert.equal(tries.filter(({ status }) => status === 'fulfilled').length, 1);
  for (const one of tries) if (one.status === 'rejected') assert.ok(hasCode(one.reason, 'unauthenticated'), one.reason);
});

test('a link is not used up where its owner is changed at the same time', async () => {
  const store = createMemoryStore();
  await using own = await startTestController({ store, hasWorker: false, hosts: 0 });
  await own.client.call(users.create, { body: { name: 'ann', role: 'developer' } });
  const made = await own.client.call(tokens.create, { body: { name: 'browser', user: 'ann', isLink: true } });
  await using link = createControllerClient({ baseUrl: own.url, key: made.token });
  const transact = store.transact.bind(store);
  store.transact = async (transaction, options) => {
    store.transact = transact;
    await own.client.call(users.update, { params: { user: 'ann' }, body: { role: 'viewer' } });
    return transact(transaction, options);
  };
  await assert.rejects(link.call(tokens.exchange, { body }), (error) => hasCode(error, 'conflict'));
  assert.equal((await link.call(tokens.exchange, { body })).user, 'ann');
});

test('a token is exchanged for one that is good for no more and no longer, and stays', async () => {
  const own = await world.client.call(tokens.create, {
    body: { name: 'laptop', user: 'ann', role: 'viewer', expiresInMs: hourMs },
  });
  await using client = clientOf(own.token);
  const given = await client.call(tokens.exchange, { body });
  assert.deepEqual([given.role, given.expiresAt], ['viewer', own.expiresAt]);
  assert.equal((await client.call(self.get, {})).token?.id, own.id);
  const ofRoot = await world.client.call(tokens.exchange, { body });
  assert.deepEqual([ofRoot.role, ofRoot.user], ['admin', undefined]);
  assert.ok(Date.parse(ofRoot.expiresAt ?? '') <= Date.now() + 12 * hourMs);
});

test('a token that is to be good for longer than the one it is made with is refused, and is not made for less', async () => {
  const day = await world.client.call(tokens.create, {
    body: { name: 'login', user: 'ann', expiresInMs: 24 * hourMs },
  });
  await using client = clientOf(day.token);
  for (const expiresInMs of [30 * 24 * hourMs, null]) {
    await assert.rejects(
      client.call(tokens.create, { body: { name: 'ci', expiresInMs } }),
      (error) => hasCode(error, 'denied') && error.message.includes(`ends at ${day.expiresAt}`),
    );
  }
  const less = await client.call(tokens.create, { body: { name: 'ci', expiresInMs: hourMs } });
  assert.ok(Date.parse(less.expiresAt ?? '') <= Date.now() + hourMs);
  assert.equal(
    (await client.call(tokens.create, { body: { name: 'ci' } })).expiresAt,
    day.expiresAt,
    'nothing was said',
  );
  const link = { name: 'link', isLink: true, expiresInMs: 30 * 24 * hourMs };
  assert.equal((await client.call(tokens.create, { body: link })).isLink, true);
});
