import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { tokens, users } from '../access/api.ts';
import { apps, formations } from '../api.ts';
import { createControllerClient } from '../client.ts';
import { generic } from '../generic/api.ts';
import { reviewCap, stepReview } from './review-apps.ts';
import { appType } from '../resources.ts';
import { startTestController } from '../testing.ts';
import { volumes } from '../volumes/api.ts';

const signal = new AbortController().signal;

test('an app says how many review apps it may have', () => {
  assert.equal(reviewCap({}), 10);
  assert.equal(reviewCap({ 'review.max': '0' }), 0);
  assert.equal(reviewCap({ 'review.max': 'many' }), 10);
});

test('a review app is looked at again when its time comes, and goes with the app it is a copy of', async () => {
  await using world = await startTestController();
  const { client, deps } = world;
  const parent = await client.call(apps.create, { body: { name: 'shop' } });
  const inAnHour = new Date(Date.now() + 3_600_000).toISOString();
  const meta = { 'review.of': parent.id, 'review.expires_at': inAnHour };
  const review = await client.call(apps.create, { body: { name: 'pr-1', meta } });
  const again = await stepReview({ ...deps, now: () => Date.parse(inAnHour) - 1_000 }, review.id, { signal });
  assert.deepEqual(again, { againInMs: 1_000 });
  assert.equal(await stepReview(deps, parent.id, { signal }), undefined, 'what is no review app stays');
  await client.call(apps.remove, { params: { app: 'shop' } });
  // The worker may be late with its own look at what was made, and do the same.
  await world.stopWorker();
  await stepReview(deps, review.id, { signal });
  await world.restartWorker();
  const isGone = (error: unknown) => hasCode(error, 'not_found');
  await waitFor(() => client.call(apps.get, { params: { app: 'pr-1' } }).then(() => undefined, isGone), {
    what: 'the end of the review app',
    deadlineMs: 60_000,
  });
});

test('a clock that leaps ahead ends no review app before it has gone on for a day', async () => {
  await using world = await startTestController({ hasWorker: false });
  const { client, deps, store } = world;
  const hourMs = 3_600_000;
  const nowMs = Date.now();
  const parent = await client.call(apps.create, { body: { name: 'shop' } });
  const body = { name: 'pr-1', meta: { 'review.of': parent.id }, reviewMs: 72 * hourMs };
  const review = await client.call(apps.create, { body });
  const step = (afterHours: number) =>
    stepReview({ ...deps, now: () => nowMs + afterHours * hourMs }, review.id, { signal });
  const note = (value: object) =>
    store.transact({ then: [{ put: '/flynn/collection', value: JSON.stringify(value) }] });
  await note({ begunMs: nowMs });
  const later = { againInMs: hourMs };
  assert.deepEqual(await step(30 * 24), later);
  await note({ begunMs: nowMs, aheadMs: nowMs + 30 * 24 * hourMs });
  assert.deepEqual(await step(30 * 24 + 23), later);
  assert.equal((await deps.resources.get(appType, review.id, { signal })).deletingSince, undefined);
  await step(31 * 24);
  assert.notEqual((await deps.resources.get(appType, review.id, { signal })).deletingSince, undefined);
});

test('what a review app keeps on hosts goes with it, when nobody is there to be asked', async () => {
  await using world = await startTestController();
  const { client, deps } = world;
  const parent = await client.call(apps.create, { body: { name: 'shop' } });
  const meta = { 'review.of': parent.id, 'review.expires_at': '2999-01-01T00:00:00Z' };
  const app = await client.call(apps.create, { body: { name: 'pr-1', meta } });
  const release = await world.makeRelease('pr-1', { db: { volumes: [{ name: 'data', path: '/data' }] } });
  await world.deploy('pr-1', release.id);
  await client.call(formations.put, { params: { app: app.id, release: release.id }, body: { processes: { db: 1 } } });
  await world.jobsOf('pr-1', 1);
  const kept = async () => (await client.call(volumes.list, {})).volumes.map(({ appName }) => appName);
  assert.deepEqual(await kept(), ['pr-1']);
  const expired = { ...meta, 'review.expires_at': '2026-01-01T00:00:00Z' };
  await deps.resources.change(appType, app.id, ({ spec }) => ({ spec: { ...spec, meta: expired } }), { signal });
  const isGone = (error: unknown) => hasCode(error, 'not_found');
  await waitFor(() => client.call(apps.get, { params: { app: 'pr-1' } }).then(() => undefined, isGone), {
    what: 'the end of the review app',
    deadlineMs: 60_000,
  });
  assert.deepEqual(await kept(), []);
});

test('a review app of nothing, or without an end, is refused', async () => {
  await using world = await startTestController();
  const create = (meta: Record<string, string>) => world.client.call(apps.create, { body: { name: 'pr-1', meta } });
  const isInvalid = (pattern: RegExp) => (error: unknown) => hasCode(error, 'invalid') && pattern.test(error.message);
  await assert.rejects(create({ 'review.of': 'x' }), isInvalid(/says when it goes/));
  await assert.rejects(
    create({ 'review.of': 'x', 'review.expires_at': '2999-01-01T00:00:00Z' }),
    isInvalid(/names an app that is not there/),
  );
});

const appKind = { group: 'flynn', version: 'v1', kind: 'App' };

test('an app that is there becomes no review app by its metadata, whoever writes it', async () => {
  await using world = await startTestController();
  const { client, deps } = world;
  const shop = await client.call(apps.create, { body: { name: 'shop', meta: { note: 'kept' } } });
  const other = await client.call(apps.create, { body: { name: 'other' } });
  const isRefused = (error: unknown) => hasCode(error, 'invalid') && /review\.(of|expires_at)/.test(error.message);
  const later = '2999-01-01T00:00:00Z';
  const wrong: Record<string, string>[] = [
    { 'review.of': 'main' },
    { 'review.of': other.id, 'review.expires_at': later },
    { 'review.expires_at': later },
  ];
  for (const meta of wrong) {
    for (const body of [{ meta }, { metaChange: meta }]) {
      await assert.rejects(client.call(apps.update, { params: { app: 'shop' }, body }), isRefused);
    }
    for (const query of [{ dryRun: true }, {}]) {
      const body = { name: 'shop', spec: { meta } };
      await assert.rejects(client.call(generic.apply, { params: appKind, body, query }), isRefused);
    }
    const body = { spec: { meta } };
    await assert.rejects(client.call(generic.patch, { params: { ...appKind, name: 'shop' }, body }), isRefused);
    const change = deps.resources.change(appType, shop.id, ({ spec }) => ({ spec: { ...spec, meta } }), { signal });
    await assert.rejects(change, isRefused);
  }
  assert.deepEqual((await client.call(apps.get, { params: { app: 'shop' } })).meta, { note: 'kept' });
});

test('a review app stays longer for who develops it, goes earlier for its admins alone, and may cease to be one', async () => {
  await using world = await startTestController();
  const { client } = world;
  const parent = await client.call(apps.create, { body: { name: 'shop' } });
  const meta = { 'review.of': parent.id, 'review.expires_at': '2999-01-01T00:00:00Z', note: 'a' };
  await client.call(apps.create, { body: { name: 'pr-1', meta } });
  await client.call(users.create, { body: { name: 'ann', role: 'developer' } });
  const { token } = await client.call(tokens.create, { body: { name: 'test', user: 'ann' } });
  await using ann = createControllerClient({ baseUrl: world.url, key: token });
  const set = (by: typeof client, metaChange: Record<string, string | null>) =>
    by.call(apps.update, { params: { app: 'pr-1' }, body: { metaChange } });
  const expiryOf = async () => (await client.call(apps.get, { params: { app: 'pr-1' } })).meta['review.expires_at'];
  await set(ann, { 'review.expires_at': '2999-02-01T00:00:00Z' });
  const isDenied = (error: unknown) => hasCode(error, 'denied') && /only an admin of the app/.test(error.message);
  await assert.rejects(set(ann, { 'review.expires_at': '2999-01-15T00:00:00Z' }), isDenied);
  const spec = { meta: { 'review.expires_at': '2026-01-01T00:00:00Z' } };
  const applied = (query: { dryRun?: boolean }) =>
    ann.call(generic.apply, { params: appKind, body: { name: 'pr-1', spec }, query });
  for (const query of [{ dryRun: true }, {}]) await assert.rejects(applied(query), isDenied);
  for (const wrong of ['soon', null]) {
    await assert.rejects(set(client, { 'review.expires_at': wrong }), (error) => hasCode(error, 'invalid'));
  }
  assert.equal(await expiryOf(), '2999-02-01T00:00:00Z');
  await set(client, { 'review.expires_at': '2999-01-15T00:00:00Z' });
  assert.equal(await expiryOf(), '2999-01-15T00:00:00Z');
  await set(ann, { 'review.of': null, 'review.expires_at': null });
  assert.deepEqual((await client.call(apps.get, { params: { app: 'pr-1' } })).meta, { note: 'a' });
});

test('a review app is a plain app in files: another cluster takes it, and here it stays what it is', async () => {
  await using world = await startTestController();
  await using other = await startTestController();
  const { client } = world;
  const parent = await client.call(apps.create, { body: { name: 'shop' } });
  const marks = { 'review.of': parent.id, 'review.expires_at': '2999-01-01T00:00:00Z' };
  await client.call(apps.create, { body: { name: 'pr-1', meta: { ...marks, note: 'a', 'review.max': '2' } } });
  const params = { ...appKind, name: 'pr-1' };
  const file = await client.call(generic.get, { params });
  assert.deepEqual(file.spec['meta'], { note: 'a', 'review.max': '2' });
  const spec = { ...file.spec, meta: { note: 'b' } };
  const here = await client.call(generic.put, { params, body: { spec } });
  assert.deepEqual(
    here.changes.map(({ path }) => path),
    ['spec.meta.note', 'spec.meta.review.max'],
  );
  assert.deepEqual((await client.call(apps.get, { params: { app: 'pr-1' } })).meta, { ...marks, note: 'b' });
  const { name, spec: whole } = file;
  const there = await other.client.call(generic.apply, { params: appKind, body: { name, spec: whole } });
  assert.equal(there.outcome, 'created');
  // A file of a version before says of whom: before anything is written it is told that there is no such app.
  const old = { name: 'pr-2', spec: { meta: marks } };
  const asked = other.client.call(generic.apply, { params: appKind, body: old, query: { dryRun: true } });
  await assert.rejects(
    asked,
    (error) => hasCode(error, 'invalid') && /names an app that is not there/.test(error.message),
  );
});

test('when a review app goes is said by the clock of the cluster', async () => {
  await using world = await startTestController();
  const { client, deps } = world;
  const parent = await client.call(apps.create, { body: { name: 'shop' } });
  const nowMs = Date.parse('2999-01-01T00:00:00Z');
  deps.now = () => nowMs;
  const body = { name: 'pr-1', meta: { 'review.of': parent.id }, reviewMs: 3_600_000 };
  const review = await client.call(apps.create, { body });
  assert.equal(review.meta['review.expires_at'], '2999-01-01T01:00:00.000Z');
  const params = { app: 'pr-1' };
  const extended = await client.call(apps.update, { params, body: { reviewMs: 7_200_000 } });
  assert.equal(extended.meta['review.expires_at'], '2999-01-01T02:00:00.000Z');
  assert.equal(extended.meta['review.of'], parent.id);
  const isInvalid = (error: unknown) => hasCode(error, 'invalid') && /no review app stays anyway/.test(error.message);
  await assert.rejects(client.call(apps.update, { params: { app: 'shop' }, body: { reviewMs: 1_000 } }), isInvalid);
  await assert.rejects(client.call(apps.create, { body: { name: 'x', reviewMs: 1_000 } }), isInvalid);
});
