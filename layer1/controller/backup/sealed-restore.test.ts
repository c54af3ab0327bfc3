import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { silentLogger } from '@flynn/kit/log';
import { createMemoryStore } from '@flynn/store/memory';
import type { MemoryStore } from '@flynn/store/memory';
import { isSealed, sealKeyOf } from '@flynn/store/sealing/envelope';
import { makeRing } from '@flynn/store/sealing/ring';
import { isOpenKey } from '@flynn/store/sealing/rules';
import { SealedStore } from '@flynn/store/sealing/sealed-store';
import { startTestBlobs } from '../testing-blobs.ts';
import { startTestController } from '../testing.ts';
import { withoutOwnVariables } from './contents.ts';
import { download, fillCluster, recordsIn, restored } from './restore-fixture.ts';

async function sealedWith(text: string): Promise<{ raw: MemoryStore; store: SealedStore }> {
  const raw = createMemoryStore();
  await makeRing(raw, { sealingKey: sealKeyOf(text), newId: randomUUID, now: new Date(0) });
  return { raw, store: new SealedStore(raw.connect(), { sealingKey: async () => text, log: silentLogger() }) };
}

test('what is sealed comes back on a cluster with another sealing key, sealed with that', async () => {
  const [before, after] = await Promise.all([sealedWith('of the cluster before'), sealedWith('of the other one')]);
  await using blobs = await startTestBlobs();
  await using world = await startTestController({ store: before.store, blobStoreUrl: blobs.url, hosts: 1 });
  await fillCluster(world, blobs.blobs);
  const archive = await download(world);
  await restored(archive, { store: after.store, hosts: 1 }, async (other) => {
    await other.jobsOf('shop', 4);
    const made = await recordsIn(other.store, 'release');
    const secrets = new Set([...made.values()].map(({ spec }) => (spec as { env: { SECRET?: string } }).env.SECRET));
    assert.ok(secrets.has('s the first') && secrets.has('s the second'));
    const { entries } = await after.raw.list('');
    const clear = entries.filter(({ key, value }) => !isOpenKey(key) && !isSealed(value));
    assert.deepEqual(clear, []);
    assert.ok(!entries.some(({ value }) => value.includes('s the first')));
  });
});

test('the sealing key of a cluster is in none of its backups', () => {
  assert.deepEqual(withoutOwnVariables({ FLYNN_SEALING_KEY: 'k', OWN: '1' }), { OWN: '1' });
});
