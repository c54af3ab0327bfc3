import assert from 'node:assert/strict';
import { test } from 'node:test';
import { apps, releases } from '../api.ts';
import { startTestController } from '../testing.ts';
import { readLiveKeys } from './live-keys.ts';

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
