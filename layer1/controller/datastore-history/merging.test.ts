/** Pieces of a log are made few; one that cannot be read holds nothing up for ever. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startDatastoreWorld } from '../datastore-backups/datastore-fixture.ts';
import { Story } from './story-fixture.ts';

test('a piece that nobody has any more is told, and after an hour a gap; all else is merged, forgotten and gone back to', async () => {
  await using at = await startDatastoreWorld();
  const { database } = at;
  const story = new Story(at);
  await story.begin();
  const write = async (minutes: number): Promise<void> => {
    for (let minute = 0; minute < minutes; minute += 1) {
      database.history.write(10);
      await story.collect();
    }
  };
  await write(10);
  const lost = (await story.status()).recent[5]?.digest ?? assert.fail();
  const beforeMs = (await story.status()).recent[4]?.untilMs ?? assert.fail();
  await at.blobs.remove(lost);
  await write(7);
  const { looked, recent } = await story.status();
  assert.deepEqual(
    looked?.missing.map(({ digest }) => digest),
    [lost],
  );
  assert.ok(recent.length < 16, `${recent.length} wait`);
  // Hosts that have it may be away.
  await write(40);
  assert.equal((await story.status()).gap, undefined);
  await write(25);
  const after = await story.status();
  assert.equal(after.unmerged, undefined);
  assert.match(after.gap?.reason ?? '', /1 of its parts cannot be read/);
  assert.ok(after.recent.length < 16, `${after.recent.length} wait`);
  assert.deepEqual(
    (await story.view()).ranges.map(({ until }) => until),
    [new Date(beforeMs).toISOString()],
  );

  // What is behind it begins with another copy.
  await story.copy();
  await write(2);
  const { ranges } = await story.view();
  assert.equal(ranges.length, 2);
  assert.equal(ranges[1]?.until, new Date(story.nowMs - 2_000).toISOString());
  await story.pass(8);
  await story.collect();
  const left = await story.archive();
  assert.deepEqual([left.bases.length, left.pieces.some(({ isLost }) => isLost)], [1, false]);
});
