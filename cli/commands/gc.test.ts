import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startTestBlobs } from '@flynn/controller/testing/blobs';
import { openDeskWithController, quickClock } from '../testing.ts';

test('gc tells what went; what was used a moment ago stays', async () => {
  await using store = await startTestBlobs();
  await using env = await openDeskWithController({ blobStoreUrl: store.url });
  await store.blobs.put('new');
  const { code, stdout, stderr } = await env.desk.run(['gc']);
  assert.equal(code, 0, stderr);
  assert.equal(stdout, 'collected 0 releases, 0 blobs (0 bytes)\n');
  assert.equal((await Array.fromAsync(store.blobs.list())).length, 1);
});

test('without a blob store gc says so, once it has asked again for a while', async () => {
  await using env = await openDeskWithController();
  // Also where a round has begun before, which is written down.
  for (const state of [{}, { begunMs: Date.now() }]) {
    await env.controller.store.transact({ then: [{ put: '/flynn/collection', value: JSON.stringify(state) }] });
    const { code, stderr } = await env.desk.run(['gc'], { clock: quickClock() });
    assert.equal(code, 1);
    assert.match(
      stderr,
      /^the cluster cannot answer just now \(no blob store is running\): asking again\nflynn: no blob store/,
    );
  }
});

test('a record that cannot be read is given up once its id is typed, or with --yes', async () => {
  await using store = await startTestBlobs();
  await using env = await openDeskWithController({ blobStoreUrl: store.url });
  const key = '/flynn/resource/release/broken';
  await env.controller.store.transact({ then: [{ put: key, value: 'damaged' }] });
  const asked = await env.desk.run(['gc', '--forget', key]);
  assert.notEqual(asked.code, 0);
  assert.notEqual(await env.controller.store.get(key), undefined);
  const { code, stdout, stderr } = await env.desk.run(['gc', '--forget', key, '--yes']);
  assert.equal(code, 0, stderr);
  assert.equal(stdout, `${key} is deleted; what it kept goes with: flynn gc\n`);
  assert.equal((await env.desk.run(['gc'])).code, 0);
});
