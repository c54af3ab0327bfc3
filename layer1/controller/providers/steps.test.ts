import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KeyedMutex } from '@flynn/kit/queue';
import { apps, releases } from '../api.ts';
import { startTestController } from '../testing.ts';
import { stepResource } from './steps.ts';
import { resourceType } from './types.ts';

test('what comes to an app at once is all in its newest release, though it has nothing to run yet', async () => {
  await using world = await startTestController({ hosts: 0, hasWorker: false });
  const { deps, client } = world;
  const { id: appId } = await client.call(apps.create, { body: { name: 'many' } });
  const names = Array.from({ length: 8 }, (_, count) => `NAME_${count}`);
  for (const name of names) {
    await deps.resources.create(resourceType, {
      id: name,
      spec: { providerId: 'pg', config: {}, apps: [{ appId }] },
      status: { externalId: name, env: { [name]: 'given' }, isAsked: true, links: {}, refused: {} },
    });
  }
  const options = { signal: AbortSignal.timeout(60_000), turns: new KeyedMutex() };
  await Promise.all(names.map((name) => stepResource(deps, name, options)));
  const [newest] = await client.call(releases.list, { params: { app: 'many' } });
  assert.deepEqual(Object.keys(newest?.env ?? {}).toSorted(), names);
});
