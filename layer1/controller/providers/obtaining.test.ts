import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KeyedMutex } from '@flynn/kit/queue';
import { startTestController } from '../testing.ts';
import { stepResource } from './steps.ts';
import { TestProvider, answers } from './test-provider.ts';
import type { Misbehaviour } from './test-provider.ts';
import { providerType, resourceType } from './types.ts';

test('one that may have been made is asked for with the same key until it is heard of, whatever is answered meanwhile', async () => {
  await using world = await startTestController({ hosts: 0, hasWorker: false });
  await using provider = await TestProvider.start();
  let nowMs = Date.now();
  const deps = { ...world.deps, now: () => nowMs };
  const options = { signal: AbortSignal.timeout(60_000), turns: new KeyedMutex() };
  await deps.resources.create(providerType, { id: 'pg', spec: { name: 'pg', url: provider.url } });
  const isAskedAfter = async (misbehaviour: Misbehaviour): Promise<boolean> => {
    provider.misbehaves = misbehaviour;
    nowMs += 3_600_000;
    await stepResource(deps, 'wish', options);
    return (await deps.resources.get(resourceType, 'wish')).status.isAsked;
  };
  await deps.resources.create(resourceType, { id: 'wish', spec: { providerId: 'pg', config: {}, apps: [] } });
  assert.equal(await isAskedAfter(answers(422, '')), false, 'refused at once, nothing was made');
  assert.equal(await isAskedAfter('lost'), true);
  for (const status of [422, 404, 401]) assert.equal(await isAskedAfter(answers(status, '')), true);
});

test('what a provider is not there for any more is said, and taken up again later', async () => {
  await using world = await startTestController({ hosts: 0, hasWorker: false });
  const nowMs = Date.now();
  const deps = { ...world.deps, now: () => nowMs };
  const spec = { providerId: 'gone', config: {}, apps: [] };
  await deps.resources.create(resourceType, { id: 'orphan', spec });
  const options = { signal: AbortSignal.timeout(60_000), turns: new KeyedMutex() };
  const again = await stepResource(deps, 'orphan', options);
  assert.ok(again !== undefined && again.againInMs > 0);
  const { status, conditions } = await deps.resources.get(resourceType, 'orphan');
  assert.equal(status.isAsked, false);
  assert.match(conditions[0]?.message ?? '', /its provider gone is not there any more/);
  const waiting = await stepResource(deps, 'orphan', options);
  assert.ok(waiting !== undefined);
  assert.equal((await deps.resources.get(resourceType, 'orphan')).status.failure?.count, 1, 'not before its time');
  await stepResource({ ...deps, now: () => nowMs - 6 * 3_600_000 }, 'orphan', options);
  const { failure } = (await deps.resources.get(resourceType, 'orphan')).status;
  assert.equal(failure?.count, 2, 'a clock that was ahead, and is right now, puts nothing off');
});
