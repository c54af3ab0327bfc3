import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Lack, Replication } from '@flynn/blobstore/api';
import { fakeClock } from '@flynn/kit/clock';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { hosts } from './api.ts';
import { releases } from '../api.ts';
import { checkSoleCopies } from './blobs.ts';
import { whileCopied } from './sole-copies.ts';
import { startTestBlobs } from '../testing/blobs.ts';
import { startTestController } from '../testing.ts';

const { signal } = new AbortController();
const digest = `sha256:${'a'.repeat(64)}`;
const none: Lack = { count: 0, bytes: 0, digests: [] };
const storesWhere = (missing: Lack): Replication => ({
  stores: [
    { host: 'h1', status: { missing: none, damaged: none, comparedAt: 1 } },
    { host: 'h2', status: { missing, damaged: none, comparedAt: 1 } },
  ],
});

test('what one host alone has is told until another has it; a store that does not answer is no obstacle', async () => {
  const check = (missing: Lack) => checkSoleCopies({ replication: async () => storesWhere(missing) }, 'h1', { signal });
  await check(none);
  await assert.rejects(
    check({ count: 2, bytes: 3e6, digests: [digest] }),
    (error) => hasCode(error, 'conflict') && /h1 alone has 2 blobs \(3 MiB\)/.test(error.message),
  );
  const away = () => Promise.reject(new FlynnError('unavailable', 'no'));
  await checkSoleCopies({ replication: away }, 'h1', { signal });
});

test('who waits sees what is left, and is told what would be lost once nothing moves any more', async () => {
  const clock = fakeClock();
  const lines: string[] = [];
  let count = 3;
  const ask = async () => {
    if (count > 0)
      await checkSoleCopies({ replication: async () => storesWhere({ count, bytes: 1, digests: [digest] }) }, 'h1', {
        signal,
      });
    return 'done';
  };
  const waiting = whileCopied(ask, { report: (line) => lines.push(line), remedy: 'or force it', signal, clock });
  const isTold = (left: number) => async () => {
    await clock.advance(2_000);
    return lines.some((line) => line.includes(`alone has ${left} `));
  };
  const limits = { what: 'the wait to tell it', deadlineMs: 30_000, intervalMs: 1 };
  await waitFor(isTold(3), limits);
  count = 2;
  await waitFor(isTold(2), limits);
  count = 0;
  await clock.advance(2_000);
  assert.equal(await waiting, 'done');

  count = 1;
  const stuck = whileCopied(ask, { report: () => {}, remedy: 'or force it', signal, clock }).catch(
    (error: unknown) => error,
  );
  let ended: unknown;
  void stuck.then((error) => (ended = error));
  const hasEnded = async () => {
    await clock.advance(60_000);
    return ended !== undefined;
  };
  await waitFor(hasEnded, { ...limits, what: 'the wait to end' });
  assert.ok(ended instanceof Error);
  assert.match(ended.message, new RegExp(`h1 alone has 1 blob .*${digest}[^]*or force it`));
});

test('others that say nothing are waited for as long as a start takes', async () => {
  const clock = fakeClock();
  const ask = () =>
    checkSoleCopies({ replication: async () => ({ stores: storesWhere(none).stores.slice(0, 1) }) }, 'h1', { signal });
  let ended: unknown;
  void whileCopied(ask, { report: () => {}, remedy: 'or force it', signal, clock }).catch(
    (error: unknown) => (ended = error),
  );
  const hasEnded = async () => {
    await clock.advance(1_000);
    return ended !== undefined;
  };
  await waitFor(hasEnded, { what: 'the wait to end', deadlineMs: 30_000, intervalMs: 1 });
  assert.ok(clock.now() < 100_000 && clock.now() >= 90_000, String(clock.now()));
});

test('a host that is away is not forgotten while releases need what no store has', async () => {
  await using stored = await startTestBlobs();
  await using world = await startTestController({ hosts: 2, blobStoreUrl: stored.url });
  const { client } = world;
  await world.deployApp('shop', { web: {} });
  const { digest: layer } = await stored.blobs.put('precious');
  const body = {
    type: 'slug' as const,
    image: { base: 'flynn/slug-runner', layers: [{ digest: layer, sizeBytes: 8 }] },
  };
  // The record of its build is gone: nothing needs it to run.
  const meta = { result: `sha256:${'0'.repeat(64)}` };
  const artifact = await client.call(releases.createArtifact, { body: { ...body, meta } });
  await client.call(releases.create, { params: { app: 'shop' }, body: { artifactId: artifact.id } });
  await client.call(hosts.tag, { params: { host: 'host2' }, body: { tags: { disk: 'ssd' } } });
  await world.hosts[1]?.[Symbol.asyncDispose]();
  const isAway = async () => {
    const { state, jobs } = await client.call(hosts.get, { params: { host: 'host2' } });
    return state === 'away' && jobs === 0;
  };
  await waitFor(isAway, { what: 'host2 to be away, and its jobs elsewhere', deadlineMs: 60_000 });
  await stored.blobs.remove(layer);
  const remove = (query: { giveUpBlobs?: boolean }) => client.call(hosts.remove, { params: { host: 'host2' }, query });
  await assert.rejects(
    remove({}),
    (error) => hasCode(error, 'conflict') && /shop v2[^]*--give-up-blobs/.test(error.message),
  );
  await stored.blobs.put('precious');
  await remove({});
});
