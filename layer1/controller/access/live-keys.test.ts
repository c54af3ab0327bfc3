import assert from 'node:assert/strict';
import { test } from 'node:test';
import { apps, releases } from '../api.ts';
import { resourceKey } from '@flynn/resource/keys';
import type { Store } from '@flynn/store/store';
import { startTestController } from '../testing.ts';
import { readLiveEnv, readLiveKeys } from './live-keys.ts';

test('hosts read in the store which root keys the live controllers take, and nothing before there are any', async () => {
  await using world = await startTestController();
  const { client, store } = world;
  const live = () => readLiveKeys(store, 'controller');
  assert.equal(await live(), undefined);
  await client.call(apps.create, { body: { name: 'controller', isSystem: true } });
  assert.equal(await live(), undefined);
  const params = { app: 'controller' };
  const { id: artifactId } = await client.call(releases.createArtifact, {
    body: { type: 'image', image: { name: 'test/image' } },
  });
  const release = async (env: Record<string, string>): Promise<void> => {
    const body = { artifactId, env: { FLYNN_KEY: 'k', FLYNN_OTHER: 'o', ...env }, processes: { web: {} } };
    const { id } = await client.call(releases.create, { params, body });
    assert.equal((await world.deploy('controller', id)).state, 'complete');
  };
  await release({ FLYNN_CONTROLLER_KEY: 'former' });
  assert.deepEqual(await live(), { domain: 'flynn.localhost', rootKeys: ['former'], rounds: [0] });
  await release({ FLYNN_CONTROLLER_KEY: 'new,former', FLYNN_TOKEN_ROUNDS: '1,0', FLYNN_DOMAIN: 'apps.net' });
  assert.deepEqual(await live(), { domain: 'apps.net', rootKeys: ['new', 'former'], rounds: [1, 0] });
  // Made, and not deployed.
  await client.call(releases.create, { params, body: { env: { FLYNN_CONTROLLER_KEY: 'other' } } });
  assert.deepEqual((await live())?.rootKeys, ['new', 'former']);
});

test('a release that another takes the place of while it is read is none: the other is', async () => {
  await using world = await startTestController();
  const { client, store } = world;
  const params = { app: 'controller' };
  await client.call(apps.create, { body: { name: 'controller', isSystem: true } });
  const body = { type: 'image', image: { name: 'test/image' } } as const;
  const { id: artifactId } = await client.call(releases.createArtifact, { body });
  const release = async (env: Record<string, string>): Promise<string> => {
    const { id } = await client.call(releases.create, { params, body: { artifactId, env, processes: { web: {} } } });
    assert.equal((await world.deploy('controller', id)).state, 'complete');
    return id;
  };
  const former = resourceKey('release', await release({ WHICH: 'former' }));
  let isGone = false;
  const racing: Pick<Store, 'get' | 'transact'> = {
    async get(key, options) {
      if (key !== former) return await store.get(key, options);
      if (!isGone) await release({ WHICH: 'next' });
      isGone = true;
      return undefined;
    },
    transact: (transaction, options) => store.transact(transaction, options),
  };
  assert.deepEqual(await readLiveEnv(racing as Store, 'controller'), { WHICH: 'next' });
});
