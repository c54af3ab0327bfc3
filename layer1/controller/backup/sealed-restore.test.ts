import assert from 'node:assert/strict';
import { test } from 'node:test';
import { testSealing } from '../sealing/testing.ts';
import { startTestBlobs } from '../testing/blobs.ts';
import { startTestController } from '../testing.ts';
import { withoutOwnVariables } from './contents.ts';
import { download, fillCluster, recordsIn, restored } from './restore-fixture.ts';

test('what is sealed comes back on a cluster with another sealing key, sealed with that', async () => {
  const [before, after] = [testSealing('of the cluster before'), testSealing('of the other one')];
  await Promise.all([before.begin(), after.begin()]);
  await using blobs = await startTestBlobs();
  await using world = await startTestController({ store: before.store, blobStoreUrl: blobs.url, hosts: 1 });
  await fillCluster(world, blobs.blobs);
  const archive = await download(world);
  await restored(archive, { store: after.store, hosts: 1 }, async (other) => {
    await other.jobsOf('shop', 4);
    const made = await recordsIn(other.store, 'release');
    const secrets = new Set([...made.values()].map(({ spec }) => (spec as { env: { SECRET?: string } }).env.SECRET));
    assert.ok(secrets.has('s the first') && secrets.has('s the second'));
    assert.deepEqual(await after.inClear(), []);
    const { entries } = await after.raw.list('');
    assert.ok(!entries.some(({ value }) => value.includes('s the first')));
  });
});

test('the sealing key of a cluster is in none of its backups', () => {
  assert.deepEqual(withoutOwnVariables({ FLYNN_SEALING_KEY: 'k', OWN: '1' }), { OWN: '1' });
});
