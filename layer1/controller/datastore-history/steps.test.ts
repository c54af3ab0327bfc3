/** The history of a datastore: collected, merged, and gone back by; what fails of it, and what begins with it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { apps } from '../api.ts';
import { blobGraceMs, collectBlobs } from '../collection/blob-collection.ts';
import { datastoreBackups } from '../datastore-backups/api.ts';
import { startDatastoreWorld } from '../datastore-backups/datastore-fixture.ts';
import { resources } from '../providers/api.ts';
import { appType } from '../resources.ts';
import { datastoreHistories as routes } from './api.ts';
import { piece, startMs, status } from './history-fixture.ts';
import { afterCollecting } from './steps.ts';
import { Story, iso, restored } from './story-fixture.ts';
import { recoveryOf } from './recovery.ts';
import { historyType } from './types.ts';

const { signal } = new AbortController();
const minuteMs = 60_000;

test('what is written is kept every minute, and what was there at a moment is put in the place of what is there', async () => {
  await using at = await startDatastoreWorld();
  const { database, world, params } = at;
  const story = new Story(at);
  await story.begin();
  const base = iso(story.nowMs - 2_000);
  const lsn = database.history.lsn;
  database.history.write(100);
  await story.collect();
  const moment = story.nowMs - 3_000;
  // Nothing is written: nothing is stored, and it is known until when.
  await story.collect();
  database.history.write(100);
  await story.collect();
  const { ranges, copiedAt, bytes } = await story.view();
  assert.deepEqual(ranges, [{ from: base, until: iso(story.nowMs - 2_000) }]);
  assert.ok(copiedAt !== undefined && bytes > 0);
  assert.deepEqual(database.history.runs.slice(0, 3), ['collect', 'base', `collect a 1 ${lsn}`]);

  const ask = (ms: number) =>
    world.client.call(datastoreBackups.restore, { params, body: { at: iso(ms) } }, { timeoutMs: 60_000 });
  await assert.rejects(ask(story.nowMs), {
    code: 'invalid',
    message: /is not kept: one can go back to \S+ to \S+; what/,
  });
  await ask(moment);
  const done = await restored(at, story.nowMs);
  assert.deepEqual([done?.state, done?.at, done?.from], ['complete', iso(moment), 'shop-postgres']);
  const [recovered] = database.history.recovered;
  assert.equal(recovered?.at, iso(moment));
  assert.ok((recovered?.roomBytes ?? 0) > 60_000_000);
  const first = `[${lsn} 1/${lsn + 100}]`;
  assert.equal(recovered?.input.toString(), `base 12\nall there iswal ${first.length}\n${first}end\n`);

  database.history.failures.push('42 MiB are free');
  await ask(moment);
  const failed = await restored(at, story.nowMs);
  assert.equal(failed?.state, 'failed');
  assert.equal(failed?.error, 'flynn-postgres-recover ended with 1: 42 MiB are free');
});

test('pieces are made few, of which each byte is there; no blob that is needed is collected, and all others are', async () => {
  await using at = await startDatastoreWorld();
  const { database, world, params } = at;
  const story = new Story(at);
  await story.begin();
  const { lsn } = database.history;
  for (let minute = 0; minute < 20; minute += 1) {
    database.history.write(10);
    await story.collect();
  }
  const [archive, status] = [await story.archive(), await story.status()];
  assert.deepEqual([archive.pieces.length, status.recent.length], [1, 4]);
  const later = { ...world.deps, now: () => Date.now() + 2 * blobGraceMs };
  await collectBlobs(later, at.blobs, { signal });
  // A copy, a piece of sixteen, four of one, and the catalogue.
  assert.equal((await Array.fromAsync(at.blobs.list())).length, 7);
  await world.client.call(datastoreBackups.restore, { params, body: { at: iso(story.nowMs - 3_000) } });
  assert.equal((await restored(at, story.nowMs))?.state, 'complete');
  const input = database.history.recovered[0]?.input.toString() ?? '';
  const parts = Array.from({ length: 20 }, (_, n) => `[${lsn + 10 * n} 1/${lsn + 10 * (n + 1)}]`);
  assert.equal(input.replaceAll(/(?:base|wal) \d+\n|end\n/g, ''), `all there is${parts.join('')}`);
});

test('what fails is told and tried again, each time beside another member; off, nothing is kept, and the log is not either', async () => {
  await using at = await startDatastoreWorld();
  const { database, world, params } = at;
  const story = new Story(at);
  database.history.failures.push('no primary');
  await at.step(story.nowMs);
  await story.collect(0);
  assert.equal((await story.view()).failure?.message, 'collect ended with 1: no primary');
  await story.collect();
  assert.equal((await story.view()).failure, undefined);
  for (const error of ['checksum error', 'still']) {
    database.history.failures.push(error);
    await story.copy();
    await story.collect();
  }
  assert.match((await story.view()).copyFailure?.message ?? '', /still/);
  await story.collect(5);
  await story.copy();
  await story.collect();
  assert.equal((await story.view()).copyFailure, undefined);
  database.history.write();
  await story.collect();
  assert.equal((await story.view()).ranges.length, 1);

  await world.client.call(routes.set, { params, body: { days: 0 } });
  await story.collect(0);
  assert.deepEqual(await story.view(), { datastore: 'shop-postgres', days: 0, ranges: [], bytes: 0 });
  // A member that begins anew is no reason to be told of anything: nothing is missing.
  database.history.failures.push('no primary');
  await story.collect(0);
  assert.notEqual((await story.status()).failure, undefined);
  assert.equal((await story.view()).failure, undefined);
  await story.collect(1);
  assert.equal((await story.status()).failure, undefined);
  const runs = database.history.runs.length;
  await story.collect(1);
  await story.collect(30);
  await story.copy();
  assert.deepEqual(database.history.runs.slice(runs), []);
  await story.collect(60);
  assert.deepEqual(database.history.runs.slice(runs), ['collect']);
  await world.client.call(routes.set, { params, body: { days: 3 } });
  await story.collect();
  await story.copy();
  await story.collect();
  await story.collect();
  const { days, ranges } = await story.view();
  assert.deepEqual([days, ranges.length], [3, 1]);
});

test('a new datastore begins with what another had at a moment; who asks for what is not kept gets nothing', async () => {
  await using at = await startDatastoreWorld({ backsUp: true });
  const { database, world } = at;
  await world.deployApp('then', { web: {} });
  // The worker does it all.
  const isKept = async () => (await world.client.call(routes.get, { params: at.params })).ranges[0];
  const story = new Story(at);
  await waitFor(async () => (await at.world.deps.resources.find(historyType, at.appId))?.status.at, {
    what: 'the log to be collected',
    deadlineMs: 30_000,
  });
  await waitFor(async () => (await story.archive()).bases.length > 0, { what: 'a copy', deadlineMs: 30_000 });
  for (let minute = 0; minute < 2; minute += 1) await story.collect();
  const range = await waitFor(isKept, { what: 'a moment', deadlineMs: 30_000 });
  const fork = (config: Record<string, string>) =>
    world.client.call(resources.create, { params: { provider: 'postgres' }, body: { config, apps: ['then'] } });
  await assert.rejects(fork({ from: 'shop-postgres' }), { code: 'invalid', message: /go together/ });
  await assert.rejects(fork({ from: 'nobody', at: range.until }), { code: 'not_found' });
  await assert.rejects(fork({ from: 'shop-postgres', at: '2001-01-01T00:00:00Z' }), { code: 'invalid' });
  await assert.rejects(fork({ from: 'shop-postgres', at: 'noon' }), { code: 'invalid', message: /write a time like/ });
  const made = await fork({ from: 'shop-postgres', at: range.until });
  assert.equal(made.state, 'ready');
  assert.equal(database.history.recovered[0]?.at, range.until);
  const own = (await world.client.call(apps.list, {})).find(({ datastore }) => datastore?.resourceId === made.id);
  assert.equal(own?.name, 'shop-postgres-2');

  const app = await world.deps.resources.get(appType, at.appId);
  const other = { ...app, spec: { ...app.spec, datastore: { appliance: 'cache', resourceId: at.resourceId } } };
  await assert.rejects(recoveryOf(world.deps, other, Date.parse(range.until), signal), {
    code: 'invalid',
    message: /shop-postgres is of a kind \(cache\) of which no moments are kept/,
  });
  // One of another kind would be made, and could never be filled.
  await world.deps.resources.change(appType, at.appId, () => ({ spec: other.spec }));
  await assert.rejects(fork({ from: 'shop-postgres', at: range.until }), {
    code: 'invalid',
    message: /shop-postgres is of another kind \(cache\): ask cache for it, and not postgres/,
  });
});

test('a piece that is large is followed by the next at once; with too many that wait to be merged nothing is collected', async () => {
  const before = status([], { run: 1 });
  const found = { system: 'a', timeline: 1, at: startMs, until: startMs, data: 5, from: 0 };
  const stored = { digest: 'x', blobBytes: 1, bytes: 1 };
  const nextOf = (to: number) => afterCollecting(before, { ...found, to, stored }, startMs).nextMs;
  // How large it is could not be asked.
  const { data: _, ...quick } = found;
  const next = afterCollecting({ ...before, recent: [piece(0)] }, { ...quick, to: 5, stored }, startMs);
  assert.equal(next.recent[1]?.dataBytes, piece(0).dataBytes);
  assert.deepEqual([nextOf(127 * 1024 ** 2), nextOf(128 * 1024 ** 2)], [startMs + minuteMs, startMs]);

  await using at = await startDatastoreWorld();
  const story = new Story(at);
  await story.begin();
  const many = Array.from({ length: 512 }, (_, n) => piece(n));
  await at.world.deps.resources.updateStatus(historyType, at.appId, (one) => ({ ...one.status, recent: many }));
  const runs = at.database.history.runs.length;
  await story.collectAlone();
  assert.match((await story.view()).failure?.message ?? '', /512 pieces of its log wait to be merged/);
  assert.equal(at.database.history.runs.length, runs);
});
