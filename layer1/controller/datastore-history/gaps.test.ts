/** Gaps in the history of a datastore, and what is left of it to a cluster that came back. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { blobGraceMs, collectBlobs } from '../collection/blob-collection.ts';
import { datastoreBackups } from '../datastore-backups/api.ts';
import { startDatastoreWorld } from '../datastore-backups/datastore-fixture.ts';
import { Story, iso, restored } from './story-fixture.ts';
import { archiveType, historyType } from './types.ts';

const { signal } = new AbortController();
const minuteMs = 60_000;
const dayMs = 24 * 60 * minuteMs;

test('a gap begins another run with a copy of its own; both can be gone back to, until the first is too old', async () => {
  await using at = await startDatastoreWorld();
  const { database } = at;
  const story = new Story(at);
  await story.begin();
  database.history.write();
  await story.collect();
  const before = await story.view();
  database.history.gap = 'it is gone';
  database.history.write();
  await story.collect();
  assert.deepEqual((await story.view()).gap, { at: iso(story.nowMs), reason: 'it is gone' });
  await story.collect(0);
  const copies = () => database.history.runs.filter((run) => run === 'base').length;
  // A bulk load that outruns the collecting is not copied beside it.
  await story.copy();
  assert.equal(copies(), 1);
  await story.collect(5);
  await story.copy();
  assert.equal(copies(), 2);
  await story.collect();
  await story.collect();
  const { ranges } = await story.view();
  assert.equal(ranges.length, 2);
  assert.deepEqual(ranges[0], before.ranges[0]);
  assert.deepEqual(database.history.runs.filter((run) => run === 'collect').length, 2);
  // What is too old is so by the database's clock, too.
  await story.collectAhead(8 * dayMs);
  assert.deepEqual((await story.view()).ranges, ranges);
  // And none of both is believed at once: one host may have them.
  await story.collect();
  const { bases } = await story.archive();
  await story.collectLeapt(9 * dayMs);
  assert.deepEqual(
    (await story.archive()).bases.map(({ digest }) => digest),
    bases.map(({ digest }) => digest),
  );
  await story.collect();
  assert.deepEqual((await story.status()).clock?.aheadMs, undefined);
  await story.collect((8 * dayMs) / minuteMs + 1);
  assert.equal((await story.view()).ranges.length, 2);
  await story.collect(dayMs / minuteMs);
  assert.equal((await story.view()).ranges.length, 1);

  // Data that were made anew are another's.
  database.history.system = 'b';
  await story.collect();
  assert.match((await story.view()).gap?.reason ?? '', /made anew/);
});

test('a gap takes nothing away: also where nothing had been written for days before it', async () => {
  await using at = await startDatastoreWorld();
  const { database, world } = at;
  const story = new Story(at);
  await story.begin();
  database.history.write();
  await story.collect();
  await story.pass(6);
  const until = iso(story.nowMs - 2_000);
  await story.pass(3);
  const before = await story.view();
  database.history.system = 'b';
  database.history.write();
  await story.collect();
  await story.collect(0);
  await story.collect();
  assert.deepEqual((await story.view()).ranges, before.ranges);
  await world.client.call(datastoreBackups.restore, { params: at.params, body: { at: until } });
  assert.equal((await restored(at, story.nowMs))?.state, 'complete');

  // So does a cluster that comes back, by what is beside it in the blob store: with that gap,
  await world.deps.resources.delete(historyType, at.appId, { signal });
  await world.deps.resources.delete(archiveType, at.appId, { signal });
  await story.collect();
  await story.collect();
  assert.deepEqual((await story.view()).ranges, before.ranges);
  // and with days in which nothing was written at its end.
  await story.copy();
  await story.collect();
  await story.pass(6);
  const quiet = (await story.view()).ranges.at(-1) ?? assert.fail();
  await world.deps.resources.delete(historyType, at.appId, { signal });
  await world.deps.resources.delete(archiveType, at.appId, { signal });
  await story.pass(2);
  await story.collect();
  assert.deepEqual((await story.view()).ranges.at(-1), quiet);
  await story.pass(8);
  await story.collect();
  assert.deepEqual((await story.view()).ranges, []);
  assert.deepEqual((await story.status()).ended, []);
});
test('a cluster that came back, onto the blobs it had, finds what was kept; that of another key is nothing to it', async () => {
  await using at = await startDatastoreWorld();
  const { database, world } = at;
  const story = new Story(at);
  await story.begin();
  for (let minute = 0; minute < 18; minute += 1) {
    database.history.write(10);
    await story.collect();
  }
  const before = await story.view();
  const forget = async () => {
    await world.deps.resources.delete(historyType, at.appId, { signal });
    await world.deps.resources.delete(archiveType, at.appId, { signal });
  };
  await forget();
  database.history.system = 'b';
  await story.collect();
  assert.deepEqual((await story.view()).ranges, before.ranges);
  assert.deepEqual((await story.status()).run, 2);
  await world.client.call(datastoreBackups.restore, {
    params: at.params,
    body: { at: before.ranges[0]?.until ?? '' },
  });
  assert.equal((await restored(at, story.nowMs))?.state, 'complete');

  await forget();
  const foreign = await at.blobs.put('of somebody else');
  await at.blobs.putName(`history/${at.appId}`, foreign.digest);
  await story.collect();
  assert.deepEqual((await story.view()).ranges, []);
  const later = { ...world.deps, now: () => Date.now() + 2 * blobGraceMs };
  await collectBlobs(later, at.blobs, { signal });
  assert.equal((await Array.fromAsync(at.blobs.listNames())).length, 1);
});
