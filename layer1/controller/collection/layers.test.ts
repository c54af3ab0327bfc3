import assert from 'node:assert/strict';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { grants, tokens, users } from '../access/api.ts';
import { apps, releases } from '../api.ts';
import { createControllerClient } from '../client.ts';
import { startTestBlobs } from '../testing/blobs.ts';
import { startTestController } from '../testing.ts';
import { layers } from './api-layers.ts';

test('the layers of a slug are for developers of an app that has it, and for nobody else', async () => {
  await using store = await startTestBlobs();
  await using world = await startTestController({ blobStoreUrl: store.url });
  const { client } = world;
  for (const name of ['mine', 'theirs']) await client.call(apps.create, { body: { name } });
  const { digest, sizeBytes } = await store.blobs.put('the code');
  const image = { base: 'slug-runner', layers: [{ digest, sizeBytes }] };
  const artifact = await client.call(releases.createArtifact, { body: { type: 'slug', image } });
  const body = { artifactId: artifact.id, processes: { web: {} } };
  await client.call(releases.create, { params: { app: 'mine' }, body });
  const params = { artifact: artifact.id, digest };
  for (const [app, role, isReader] of [
    ['mine', 'developer', true],
    ['mine', 'viewer', false],
    ['theirs', 'admin', false],
  ] as const) {
    const name = `${role}-of-${app}`;
    await client.call(users.create, { body: { name } });
    await client.call(grants.put, { params: { app, kind: 'user', name }, body: { role } });
    const { token } = await client.call(tokens.create, { body: { name: 'test', user: name } });
    await using own = createControllerClient({ baseUrl: world.url, key: token });
    const read = async () => text(await own.stream(layers.get, { params }, {}));
    if (isReader) assert.equal(await read(), 'the code', name);
    else await assert.rejects(read(), (error) => hasCode(error, 'not_found', 'denied'), name);
  }
});
