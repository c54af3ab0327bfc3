/** Nothing is collected by a clock that leapt ahead, and what keeps rounds from ending is told. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FlynnError } from '@flynn/kit/errors';
import { startTestBlobs } from '../testing/blobs.ts';
import { startTestController } from '../testing.ts';
import { collections } from './api.ts';
import { blobGraceMs } from './blob-collection.ts';
import type { BlobCollector } from './blob-collection.ts';
import { collectionFindings } from './findings.ts';
import { beginRound } from './round-state.ts';
import type { RoundState } from './round-state.ts';
import { collectAll } from './rounds.ts';

const { signal } = new AbortController();
const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

test('a clock that leaps is not believed before it has gone on for a day; one that is put back, or only late, is', () => {
  const begun = (nowMs: number): RoundState => ({ begunMs: nowMs });
  const at = 100 * dayMs;
  assert.deepEqual(beginRound({}, at, undefined), begun(at), 'there is nothing to compare it with');
  assert.deepEqual(beginRound({}, at, at - hourMs), begun(at));
  assert.deepEqual(beginRound({}, at, at - 9 * dayMs), { aheadMs: at });
  assert.deepEqual(beginRound(begun(at), at + 11 * hourMs, undefined), begun(at + 11 * hourMs));
  assert.deepEqual(beginRound(begun(at), at - 40 * dayMs, undefined), begun(at - 40 * dayMs));
  const leapt = beginRound(begun(at), at + 8 * dayMs, undefined);
  assert.deepEqual(leapt, { begunMs: at, aheadMs: at + 8 * dayMs });
  assert.deepEqual(beginRound(leapt, at + hourMs, undefined), begun(at + hourMs), 'it is right again');
  const stays = beginRound(leapt, at + 8 * dayMs + 23 * hourMs, undefined);
  assert.deepEqual(stays, leapt);
  assert.deepEqual(beginRound(stays, at + 9 * dayMs, undefined), begun(at + 9 * dayMs), 'the cluster was off');
});

test('a clock that is ahead for a round costs no blob that was just used', async () => {
  await using world = await startTestController();
  await using blobStore = await startTestBlobs();
  const { blobs } = blobStore;
  const at = (ms: number) => ({ ...world.deps, now: () => Date.now() + ms });
  await blobs.put('on its way');
  await blobs.putName('brought/user/u1/00', (await blobs.put('brought')).digest);
  const none = { releases: 0, blobs: 0, bytes: 0, names: 0 };
  const isAll = async () => (await Array.fromAsync(blobs.list())).length === 2;
  assert.equal(await collectAll(at(8 * dayMs), blobs, { signal }), 'clock is ahead', 'of what the blob store saw last');
  assert.deepEqual(await collectAll(at(0), blobs, { signal }), none);
  assert.equal(await collectAll(at(8 * dayMs), blobs, { signal }), 'clock is ahead');
  assert.ok(await isAll());
  const collected = await collectAll(at(9 * dayMs + blobGraceMs), blobs, { signal });
  assert.ok(typeof collected === 'object');
  assert.deepEqual([collected.blobs, collected.names], [2, 1]);
});

test('who asks for a round by a clock that is ahead is told why there is none', async () => {
  await using blobStore = await startTestBlobs();
  await using world = await startTestController({ blobStoreUrl: blobStore.url });
  const { client, store } = world;
  const write = (value: string) => store.transact({ then: [{ put: '/flynn/collection', value }] });
  await write(JSON.stringify({ begunMs: Date.now() - 8 * dayMs }));
  await assert.rejects(client.call(collections.run, {}), { code: 'conflict', message: /put the clock right/ });
  for (const value of ['no state', '{"begunMs":"then"}']) {
    await write(value);
    assert.deepEqual(await client.call(collections.run, {}), { releases: 0, blobs: 0, bytes: 0, names: 0 });
  }
});

test('a round that does not end well is told after hours, since the first that did not', async () => {
  await using world = await startTestController();
  const failing = () => {
    throw new FlynnError('unavailable', 'no blob store is running');
  };
  const rest = { remove: failing, removeName: failing, get: failing, stat: failing };
  const blobs = { list: failing, listNames: failing, ...rest };
  const nowMs = Date.now();
  const { store } = world;
  await store.transact({ then: [{ put: '/flynn/collection', value: JSON.stringify({ begunMs: nowMs }) }] });
  const state = async () => JSON.parse((await store.get('/flynn/collection'))?.value ?? '{}') as RoundState;
  for (const ms of [0, hourMs]) {
    const round = collectAll({ ...world.deps, now: () => nowMs + ms }, blobs, { signal });
    await assert.rejects(round, { code: 'unavailable' });
  }
  const since = new Date(nowMs).toISOString();
  assert.deepEqual((await state()).failure, { since, message: 'no blob store is running', isUnreadable: false });
  assert.deepEqual(collectionFindings(await state(), nowMs + 2 * hourMs), []);
  const [found] = collectionFindings(await state(), nowMs + 4 * hourMs);
  assert.deepEqual([found?.severity, found?.since], ['warning', since]);
});

test('a round that is stuck is told, also the first, which asks when blobs were used; one that somebody ends is not', async () => {
  await using world = await startTestController();
  const { deps, store } = world;
  async function* stuck({ signal: until }: { signal?: AbortSignal } = {}): AsyncGenerator<never> {
    yield await new Promise<never>((_resolve, reject) => {
      const end = () => reject(until?.reason as Error);
      if (until?.aborted === true) end();
      until?.addEventListener('abort', end, { once: true });
    });
  }
  const failing = () => {
    throw new FlynnError('internal', 'nothing is to go');
  };
  const rest = { remove: failing, removeName: failing, get: failing, stat: failing };
  const blobs: BlobCollector = { list: stuck, listNames: stuck, ...rest };
  const state = async () => JSON.parse((await store.get('/flynn/collection'))?.value ?? '{}') as RoundState;
  const ended = new AbortController();
  const round = collectAll(deps, blobs, { signal: ended.signal });
  ended.abort();
  await assert.rejects(round);
  assert.equal((await state()).failure, undefined);
  for (const begunMs of [undefined, Date.now()]) {
    await store.transact({ then: [{ put: '/flynn/collection', value: JSON.stringify({ begunMs }) }] });
    await assert.rejects(collectAll(deps, blobs, { signal, deadlineMs: 60 }), { code: 'timeout' });
    assert.match((await state()).failure?.message ?? '', /did not end within/);
    assert.equal((await state()).begunMs === undefined, begunMs === undefined);
  }
});
