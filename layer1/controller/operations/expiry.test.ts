/** How long an operation may wait to be begun. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { operations } from './api.ts';
import type { Operation } from '../model.ts';
import { startTestController } from '../testing.ts';
import { join, newApp, create, get, watchAt } from './lifecycle-fixture.ts';

test('queued and given away it expires, running it does not, and the time can be moved', async () => {
  await using world = await startTestController({ hasWorker: false });
  const { client } = world;
  const lookAt = watchAt(world);
  const expiresAt = new Date(10_000).toISOString();
  for (const name of ['a', 'b', 'c', 'd']) await newApp(client, name);
  const runner = await join(world, 'r1');
  const [running] = await create(client, 'a', { expiresAt });
  await runner.claim();
  const [waiting] = await create(client, 'b', { expiresAt });
  await runner.assignments();
  const [queued, next] = await create(client, 'c', { id: 'first', expiresAt }, { dependsOn: ['first'] });
  const [moved] = await create(client, 'd', { expiresAt });
  const later = { params: { operation: moved?.id ?? '' }, body: { expiresAt: new Date(30_000).toISOString() } };
  assert.equal((await client.call(operations.update, later)).expiresAt, later.body.expiresAt);
  await lookAt(9_999);
  assert.equal((await get(client, queued?.id ?? '')).state, 'queued');
  await lookAt(10_000);
  const states = await Promise.all([running, waiting, queued, next, moved].map((one) => get(client, one?.id ?? '')));
  assert.deepEqual(
    states.map(({ state }) => state),
    ['running', 'failed', 'failed', 'cancelled', 'queued'],
  );
  assert.match(states[1]?.error ?? '', /it expired at .*: r1 had not begun it/);
  assert.match(states[2]?.error ?? '', /it expired at .*: no runner had taken it/);
  await lookAt(30_000);
  assert.equal((await get(client, moved?.id ?? '')).state, 'failed');
});

test('how long it may wait is by the controller’s clock, and is moved or taken away', async () => {
  await using world = await startTestController({ hasWorker: false });
  const { client } = world;
  await newApp(client, 'shop');
  const [one] = await create(client, 'shop', { expiresInMs: 60_000 });
  assert.ok(one !== undefined);
  const waitMs = ({ createdAt, expiresAt = '' }: Operation) => Date.parse(expiresAt) - Date.parse(createdAt);
  assert.ok(Math.abs(waitMs(one) - 60_000) < 30_000, one.expiresAt);
  const lookAt = watchAt(world);
  const params = { operation: one.id };
  const moved = await client.call(operations.update, { params, body: { expiresInMs: 3_600_000 } });
  assert.ok(waitMs(moved) >= 3_600_000, moved.expiresAt);
  await lookAt(Date.parse(one.expiresAt ?? ''));
  assert.equal((await get(client, one.id)).state, 'queued');
  const free = await client.call(operations.update, { params, body: { expiresAt: null } });
  assert.equal(free.expiresAt, undefined);
  await lookAt(Date.parse(moved.expiresAt ?? ''));
  assert.equal((await get(client, one.id)).state, 'queued');
  const both = { expiresAt: new Date(0).toISOString(), expiresInMs: 1_000 };
  await assert.rejects(client.call(operations.update, { params, body: both }), /either expiresAt or expiresInMs/);
  await assert.rejects(create(client, 'shop', both), /either expiresAt or expiresInMs/);
  await assert.rejects(client.call(operations.update, { params, body: {} }), /until when\?/);
  await assert.rejects(create(client, 'shop', { expiresInMs: 10 }), (error) => hasCode(error, 'invalid'));
});
