/** From one etcd to another, with real blob stores: what etcd says of pages, revisions and large transactions. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startTestBlobs } from '../testing/blobs.ts';
import { startTestStore } from '../testing/store.ts';
import { sealedStore } from '../sealing/testing.ts';
import { startTestController } from '../testing.ts';
import { apps } from '../api.ts';
import { providerType, resourceType } from '../providers/types.ts';
import { credentials, download, envOfBuild, fillCluster, mirror, recordsIn, restored } from './restore-fixture.ts';

test('a cluster on etcd is backed up while it is written to, and restored onto another etcd', async () => {
  const { etcd, store } = await startTestStore();
  await using _etcd = etcd;
  const second = await startTestStore();
  await using _second = second.etcd;
  await using before = await startTestBlobs();
  await using world = await startTestController({ store, blobStoreUrl: before.url });
  await fillCluster(world, before.blobs);
  // More than fit into a page or a transaction, and some while the backup is made.
  for (let count = 0; count < 120; count += 1) await world.client.call(apps.create, { body: { name: `app-${count}` } });
  const [archive] = await Promise.all([
    download(world),
    ...Array.from({ length: 20 }, (_, count) => world.client.call(apps.create, { body: { name: `late-${count}` } })),
  ]);
  const old = await recordsIn(store, 'release');
  await restored(archive, { store: second.store, hosts: 1 }, async (other) => {
    await other.jobsOf('shop', 4);
    const names = (await other.client.call(apps.list, {})).map(({ name }) => name);
    assert.equal(names.filter((name) => name.startsWith('app-')).length, 120);
    const now = await recordsIn(second.store, 'release');
    for (const [key, record] of now) assert.deepEqual(record, old.get(key), key);
    assert.equal(now.size, 2);
  });
});

test('what builds and apps are given comes back onto an etcd with another sealing key, sealed with that, and is of use', async () => {
  const first = await startTestStore();
  await using _first = first.etcd;
  const second = await startTestStore();
  await using _second = second.etcd;
  const kept = { before: await sealedStore(first.store, 'before'), after: await sealedStore(second.store, 'after') };
  await using blobs = await startTestBlobs();
  await using world = await startTestController({ store: kept.before, blobStoreUrl: blobs.url, hosts: 1 });
  await fillCluster(world, blobs.blobs);
  const archive = await download(world);
  await restored(archive, { store: kept.after, hosts: 1 }, async (other) => {
    assert.equal((await envOfBuild(other))['NPM_CONFIG_REGISTRY'], mirror);
    const { status } = await other.deps.resources.get(resourceType, 'given');
    assert.match(status.env['DATABASE_URL'] ?? '', new RegExp(credentials));
    const provider = await other.deps.resources.lookup(providerType, 'pg');
    assert.equal(provider.spec.token, credentials);
    for (const { store } of [first, second]) {
      const { entries } = await store.list('/flynn');
      for (const type of ['runner-env', 'provider', 'resource']) {
        assert.ok(entries.some(({ key }) => key.startsWith(`/flynn/resource/${type}/`)));
      }
      const clear = entries
        .filter(({ value }) => value.includes('of-builds') || value.includes(credentials))
        .map(({ key }) => key);
      assert.deepEqual(clear, [], 'in clear');
    }
  });
});
