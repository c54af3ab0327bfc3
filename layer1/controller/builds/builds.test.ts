import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { builds } from './api.ts';
import { apps, jobs } from '../api.ts';
import { operations } from '../operations/api.ts';
import { startTestController } from '../testing.ts';

test('an app asks for its builds what the cluster allows, and its next build has it', async () => {
  await using world = await startTestController();
  const { client } = world;
  const mebibyte = 1024 ** 2;
  await world.deployApp(
    'slug-builder',
    { build: { command: ['build'], memoryBytes: 512 * mebibyte } },
    { isSystem: true },
  );
  await client.call(apps.create, { body: { name: 'shop', meta: { note: 'mine' } } });
  const params = { app: 'shop' };
  assert.deepEqual((await client.call(builds.limits, { params })).memory, {
    value: 512 * mebibyte,
    most: 512 * mebibyte,
    isOwn: false,
  });
  const changed = await client.call(builds.setLimits, { params, body: { memory: '256MB', time: '5m' } });
  assert.deepEqual([changed.memory.value, changed.time.value], [256 * mebibyte, 300_000]);
  await assert.rejects(client.call(builds.setLimits, { params, body: { memory: '8GB' } }), (error) =>
    hasCode(error, 'invalid'),
  );
  assert.deepEqual((await client.call(apps.get, { params })).meta, {
    note: 'mine',
    'build.memory': '256MB',
    'build.time': '5m',
  });
  const push = { pushId: 'p', sourceDigest: 'sha256:x', commit: 'c', branch: 'main' };
  const [operation] = await client.call(operations.push, { params, body: push });
  const body = { operationId: operation?.id ?? '', sourceDigest: 'sha256:x' };
  const { workloadId } = await client.call(jobs.build, { params, body });
  const { entries } = await world.store.list('/flynn/cell/');
  const text =
    entries.find(({ value }) => value.includes('"FLYNN_BUILD_TIMEOUT"'))?.value ?? `nothing of ${workloadId}`;
  assert.match(text, /"FLYNN_BUILD_TIMEOUT":"300000ms"/);
  assert.match(text, new RegExp(`"memoryBytes":${256 * mebibyte}`));
  const back = await client.call(builds.setLimits, { params, body: { memory: null, time: null } });
  assert.deepEqual([back.memory.isOwn, back.time.isOwn], [false, false]);
});
