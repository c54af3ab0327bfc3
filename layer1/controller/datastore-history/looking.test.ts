/** Blobs of a history that are gone are known, all at once, and what is behind them goes on. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FlynnError } from '@flynn/kit/errors';
import { startDatastoreWorld } from '../datastore-backups/datastore-fixture.ts';
import type { DatastoreWorld } from '../datastore-backups/datastore-fixture.ts';
import { Story } from './story-fixture.ts';
import { historyType } from './types.ts';

async function write(at: DatastoreWorld, story: Story, minutes: number): Promise<void> {
  for (let minute = 0; minute < minutes; minute += 1) {
    at.database.history.write(10);
    await story.collect();
  }
}

test('parts that went together are given up together; nothing waits for them', async () => {
  await using at = await startDatastoreWorld();
  const story = new Story(at);
  await story.begin();
  await write(at, story, 15);
  for (const { digest } of (await story.status()).recent.slice(1)) await at.blobs.remove(digest);
  await write(at, story, 140);
  const [status, archive] = [await story.status(), await story.archive()];
  assert.equal([...status.recent, ...archive.pieces].filter(({ isLost }) => isLost).length, 14);
  assert.match(status.gap?.reason ?? '', /14 of its parts cannot be read any more/);
  assert.deepEqual([status.failure, status.looked?.missing], [undefined, []]);
  assert.ok(status.recent.length < 16, `${status.recent.length} wait`);
  await story.copy();
  await write(at, story, 2);
  assert.equal((await story.view()).ranges.length, 2);
});

test('who dies when parts are marked, and not told yet, is followed by one who tells it', async () => {
  await using at = await startDatastoreWorld();
  const story = new Story(at);
  await story.begin();
  await write(at, story, 16);
  const [{ digest } = assert.fail()] = (await story.archive()).pieces;
  await at.blobs.remove(digest);
  const look = async (minutes: number): Promise<void> => {
    story.nowMs += minutes * 60_000;
    await story.look();
  };
  await look(60);
  for (let time = 0; time < 11; time += 1) await look(5);
  const before = await story.status();
  assert.equal(before.looked?.missing[0]?.times, 12);
  await look(5);
  const { gap } = await story.status();
  assert.match(gap?.reason ?? '', /1 of its parts/);
  await at.world.deps.resources.updateStatus(historyType, at.appId, () => before);
  await look(5);
  const after = await story.status();
  assert.deepEqual([after.gap?.reason, after.looked?.missing], [gap?.reason, []]);
});

test('copies and old parts that are gone are known within hours, and it is copied anew', async () => {
  await using at = await startDatastoreWorld();
  const story = new Story(at);
  await story.begin();
  await write(at, story, 40);
  const { bases, pieces } = await story.archive();
  for (const { digest } of [...bases, ...pieces]) await at.blobs.remove(digest);
  for (let look = 0; look < 26; look += 1) await story.collect(5);
  assert.ok((await story.archive()).bases.every(({ isLost }) => isLost));
  assert.deepEqual((await story.view()).ranges, []);
  await story.copy();
  await story.collect();
  await story.collect();
  const { ranges } = await story.view();
  assert.deepEqual([ranges.length, Date.parse(ranges[0]?.from ?? '') > story.nowMs - 5 * 60_000], [1, true]);
});

test('what is away comes back: it is lost only if nobody has it for an hour on end, and not any more when it is found', async () => {
  await using at = await startDatastoreWorld();
  const story = new Story(at);
  await story.begin();
  await write(at, story, 5);
  const before = await story.view();
  let says: 'not_found' | 'unavailable' | undefined = 'not_found';
  const refusing = async (): Promise<never> => {
    throw new FlynnError(says ?? 'internal', 'it is away');
  };
  story.blobs = {
    ...at.blobs,
    get: (digest, options) => (says === undefined ? at.blobs.get(digest, options) : refusing()),
    stat: (digest, options) => (says === undefined ? at.blobs.stat(digest, options) : refusing()),
  };
  const look = async (times: number): Promise<void> => {
    for (let time = 0; time < times; time += 1) {
      story.nowMs += 5 * 60_000;
      await story.look();
    }
  };
  const lost = async () => (await story.archive()).bases.filter(({ isLost }) => isLost).length;
  story.nowMs += 60 * 60_000;
  await look(8);
  says = 'unavailable';
  await look(2);
  story.nowMs += 600 * 60_000;
  says = 'not_found';
  await look(8);
  assert.equal(await lost(), 0);
  await look(5);
  assert.equal(await lost(), 1);
  assert.deepEqual((await story.view()).ranges, []);
  says = undefined;
  await look(13);
  assert.equal(await lost(), 0);
  assert.deepEqual((await story.view()).ranges, before.ranges);
});

test('one that is there, and damaged, is read to be believed, and given up for good', async () => {
  await using at = await startDatastoreWorld();
  const story = new Story(at);
  await story.begin();
  await write(at, story, 5);
  const bad = (await story.status()).recent[2]?.digest ?? assert.fail();
  story.blobs = {
    ...at.blobs,
    get: async (digest, options) => {
      if (digest === bad) throw new FlynnError('invalid', 'it is not what it was');
      return at.blobs.get(digest, options);
    },
  };
  await write(at, story, 30);
  assert.equal((await story.status()).looked?.missing[0]?.isDamaged, true);
  await write(at, story, 60);
  const marked = (await story.archive()).pieces.filter(({ isLost }) => isLost);
  assert.deepEqual(
    marked.map(({ digest, isDamaged }) => [digest, isDamaged]),
    [[bad, true]],
  );
  await write(at, story, 70);
  assert.equal((await story.archive()).pieces.filter(({ isLost }) => isLost).length, 1);
});
