/** Copies that the history of a datastore is gone on from. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startDatastoreWorld } from '../datastore-backups/datastore-fixture.ts';
import { copy, startMs } from './history-fixture.ts';
import { afterBase } from './steps.ts';
import { Story, iso } from './story-fixture.ts';
import type { Base } from './types.ts';
import { archiveType } from './types.ts';

const minuteMs = 60_000;

test('a copy begins where the log is collected to, also where that was collected while the copy was about to begin', async () => {
  await using at = await startDatastoreWorld();
  const { database, world } = at;
  const story = new Story(at);
  const store = world.deps.resources;
  const find = store.find.bind(store);
  let meanwhile = async (): Promise<void> => undefined;
  // What a copy is made of has been read in part by then.
  store.find = async (type, ...rest) => {
    const now = meanwhile;
    if (type.name === archiveType.name) meanwhile = async () => undefined;
    if (type.name === archiveType.name) await now();
    return find(type, ...rest);
  };
  await at.step(story.nowMs);
  await story.collect();
  database.history.write();
  meanwhile = () => story.collectAlone();
  await story.copy();
  database.history.write();
  await story.collect();
  const { ranges } = await story.view();
  assert.deepEqual(ranges, [{ from: iso(story.nowMs - 2_000), until: iso(story.nowMs - 2_000) }]);

  // A gap ended the run.
  database.history.gap = 'it is gone';
  await story.collect(10);
  await story.collect();
  await story.collect(10);
  meanwhile = async () => {
    database.history.gap = 'it is gone again';
    await story.collectAlone();
  };
  const copies = () => database.history.runs.filter((run) => run === 'base').length;
  await story.copy();
  assert.equal(copies(), 1);
  await story.collect(0);
  await story.collect(30);
  await story.copy();
  assert.equal(copies(), 2);
});

test('a copy of what a primary wrote last, and no other has, is not gone on from', () => {
  const known = { run: 1, at: { system: 'a', timeline: 1, lsn: 500 } };
  const found = { system: 'a', at: 90_000, until: 88_000, data: 1, from: 500, to: 700 };
  const { readyMs: _, ...unready } = copy(0);
  const old = { ...copy(0), readyLsn: 300 };
  const on = (base: Base, more: object) =>
    afterBase(base, known, { ...found, timeline: 1, ...more }, startMs + minuteMs);
  assert.deepEqual(on(unready, {}), { ...unready, readyMs: 88_000, readyLsn: 700 });
  assert.equal(afterBase(unready, known, { ...found, timeline: 1 }, unready.endedMs), unready);
  assert.equal(on(unready, { gap: 'it is gone' }), unready);
  assert.equal(afterBase(unready, { run: 2 }, { ...found, timeline: 1 }, startMs + minuteMs), unready);
  assert.equal(on(unready, { timeline: 2, left: 400 }), undefined);
  assert.equal(on(old, { timeline: 2, left: 400 }), old);
  assert.equal(on(old, { timeline: 2, left: 200 }), undefined);
  assert.equal(on({ ...old, start: { timeline: 0, lsn: 0 } }, { timeline: 2, left: 200 })?.readyLsn, 300);
});
