import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KeyedMutex } from '@flynn/kit/queue';
import type { Deps } from '../deps.ts';
import { startTestController } from '../testing.ts';
import { stepResource } from './steps.ts';
import { TestProvider, answers } from './test-provider.ts';
import { providerFinalizer, providerType, resourceType } from './types.ts';
import { goingOn, mostMs } from './under-way.ts';
import { viewResource } from './views.ts';

const toMake = { nowMs: 0, isOfRemoval: false };

async function startWish() {
  const world = await startTestController({ hosts: 0, hasWorker: false });
  const provider = await TestProvider.start();
  const clock = { nowMs: Date.now() };
  const deps: Deps = { ...world.deps, now: () => clock.nowMs };
  const options = { signal: AbortSignal.timeout(60_000), turns: new KeyedMutex() };
  await deps.resources.create(providerType, { id: 'pg', spec: { name: 'pg', url: provider.url } });
  const spec = { providerId: 'pg', config: {}, apps: [] };
  await deps.resources.create(resourceType, { id: 'wish', spec, finalizers: [providerFinalizer] });
  return {
    provider,
    clock,
    resources: deps.resources,
    /** As a worker does that knows nothing but the record. */
    step: () => stepResource(deps, 'wish', options),
    view: async () => viewResource(await deps.resources.get(resourceType, 'wish'), 'pg'),
    async [Symbol.asyncDispose]() {
      await world[Symbol.asyncDispose]();
      await provider[Symbol.asyncDispose]();
    },
  };
}

test('what takes its provider minutes is asked for again with the same key, no sooner than it says, and is there in the end', async () => {
  await using wish = await startWish();
  const { provider, clock } = wish;
  provider.misbehaves = answers(202, '', { 'retry-after': '30' });
  assert.deepEqual(await wish.step(), { againInMs: 30_000 });
  const begun = await wish.view();
  assert.equal(begun.state, 'provisioning');
  assert.match(begun.waitingFor ?? '', /pg has begun to make it/);
  assert.equal(begun.failure, undefined);
  clock.nowMs += 29_000;
  assert.deepEqual(await wish.step(), { againInMs: 1_000 });
  assert.equal(provider.seen.length, 1, 'not before its time');
  clock.nowMs += 1_000;
  await wish.step();
  // A failure in between ends nothing.
  provider.misbehaves = answers(503, '');
  clock.nowMs += 60_000;
  await wish.step();
  assert.equal((await wish.view()).failure?.code, 'unavailable');
  provider.misbehaves = undefined;
  clock.nowMs += 60_000;
  await wish.step();
  const made = await wish.view();
  assert.deepEqual([made.state, made.externalId], ['ready', 'db/1']);
  assert.equal(new Set(provider.seen.map(({ key }) => key)).size, 1);
});

test('what is not made within half an hour is asked for no more, and is taken back once it is there', async () => {
  await using wish = await startWish();
  const { provider, clock } = wish;
  provider.misbehaves = answers(202, '', { 'retry-after': '9999' });
  for (let waitedMs = 0; waitedMs <= mostMs; waitedMs += 60_000) {
    await wish.step();
    clock.nowMs += 60_000;
  }
  const asked = provider.seen.length;
  assert.equal(await wish.step(), undefined);
  assert.equal(provider.seen.length, asked);
  const late = await wish.view();
  assert.equal(late.state, 'pending');
  assert.match(late.failure?.message ?? '', /pg was not through with it after 30 min, and is asked no more/);
  await wish.resources.delete(resourceType, 'wish');
  await wish.step();
  assert.match((await wish.view()).waitingFor ?? '', /which has begun to take it back/);
  provider.misbehaves = undefined;
  clock.nowMs += 60_000;
  await wish.step();
  assert.equal(await wish.resources.find(resourceType, 'wish'), undefined);
  assert.equal(provider.made.size, 0);
});

test('what it had begun and then refuses came to nothing: it is told in its words, and nothing is left to take back', async () => {
  await using wish = await startWish();
  const { provider, clock } = wish;
  provider.misbehaves = answers(202, '');
  await wish.step();
  provider.misbehaves = answers(422, '{"message":"no room for it"}');
  clock.nowMs += 60_000;
  assert.equal(await wish.step(), undefined);
  const refused = await wish.view();
  assert.deepEqual([refused.state, refused.failure?.code], ['pending', 'invalid']);
  assert.match(refused.failure?.message ?? '', /no room for it/);
  const asked = provider.seen.length;
  await wish.resources.delete(resourceType, 'wish');
  await wish.step();
  assert.equal(await wish.resources.find(resourceType, 'wish'), undefined);
  assert.equal(provider.seen.length, asked);
});

test('what takes its time to go is removing until the provider says that it is gone, and is not made again for being asked of', async () => {
  await using wish = await startWish();
  const { provider, clock } = wish;
  // It made it, and nobody heard that: the same wish tells its name.
  provider.misbehaves = 'lost';
  await wish.step();
  await wish.resources.delete(resourceType, 'wish');
  provider.misbehaves = (request, response) => {
    if (request.method === 'DELETE') response.writeHead(202, { 'retry-after': '5' }).end();
    else response.writeHead(200).end('{"id":"db/1","env":{}}');
  };
  clock.nowMs += 60_000;
  assert.deepEqual(await wish.step(), { againInMs: 5_000 });
  const going = await wish.view();
  assert.equal(going.state, 'removing');
  assert.match(going.waitingFor ?? '', /its provider, which has begun to take it back/);
  const wishes = provider.seen.filter(({ method }) => method === 'POST').length;
  provider.misbehaves = answers(404, '');
  clock.nowMs += 5_000;
  await wish.step();
  assert.equal(await wish.resources.find(resourceType, 'wish'), undefined);
  assert.equal(provider.seen.filter(({ method }) => method === 'POST').length, wishes);
});

test('pauses are as the provider says, between a second and a minute, and count for the one thing they were of', () => {
  const first = goingOn(undefined, { laterMs: undefined }, toMake);
  assert.deepEqual(first, { isOfRemoval: false, waitedMs: 5_000, nextMs: 5_000 });
  assert.equal(goingOn(first, { laterMs: 0 }, toMake).waitedMs, 6_000);
  assert.equal(goingOn(first, { laterMs: 3_600_000 }, toMake).nextMs, 60_000);
  const going = goingOn({ ...first, waitedMs: mostMs }, { laterMs: undefined }, { nowMs: 0, isOfRemoval: true });
  assert.deepEqual([going.waitedMs, going.isOver], [5_000, undefined]);
  const long = goingOn({ ...going, waitedMs: mostMs }, { laterMs: undefined }, { nowMs: 0, isOfRemoval: true });
  assert.equal(long.isOver, undefined, 'what is to go is asked for until it is gone');
});
