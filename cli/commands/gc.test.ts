import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startTestBlobs } from '@flynn/controller/testing-blobs';
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
  const { code, stderr } = await env.desk.run(['gc'], { clock: quickClock() });
  assert.equal(code, 1);
  assert.match(
    stderr,
    /^the cluster cannot answer just now \(no blob store is running\): asking again\nflynn: no blob store/,
  );
});
