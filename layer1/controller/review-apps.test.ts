import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { apps, formations } from './api.ts';
import { reviewCap, stepReview } from './review-apps.ts';
import { appType } from './resources.ts';
import { startTestController } from './testing.ts';
import { volumes } from './volumes/api.ts';

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
  await stepReview(deps, review.id, { signal });
  const isGone = (error: unknown) => hasCode(error, 'not_found');
  await waitFor(() => client.call(apps.get, { params: { app: 'pr-1' } }).then(() => undefined, isGone), {
    what: 'the end of the review app',
    deadlineMs: 60_000,
  });
});

test('what a review app keeps on hosts goes with it, when nobody is there to be asked', async () => {
  await using world = await startTestController();
  const { client, deps } = world;
  const parent = await client.call(apps.create, { body: { name: 'shop' } });
  const { app, release } = await world.deployApp('pr-1', { db: { volumes: [{ name: 'data', path: '/data' }] } });
  const expired = { 'review.of': parent.id, 'review.expires_at': '2026-01-01T00:00:00Z' };
  await client.call(formations.put, { params: { app: app.id, release: release.id }, body: { processes: { db: 1 } } });
  await world.jobsOf('pr-1', 1);
  const kept = async () => (await client.call(volumes.list, {})).volumes.map(({ appName }) => appName);
  assert.deepEqual(await kept(), ['pr-1']);
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
