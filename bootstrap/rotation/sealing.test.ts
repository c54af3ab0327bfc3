import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { addSealingKeys, readSealingKeys } from '@flynn/host-agent/cluster/sealing-keys';
import { cellKeys } from '@flynn/scheduler/cell';
import { isSealed, sealKeyOf } from '@flynn/store/sealing/envelope';
import { readRing } from '@flynn/store/sealing/ring';
import { SealedStore } from '@flynn/store/sealing/sealed-store';
import { silentLogger } from '@flynn/kit/log';
import { openTestStore } from '@flynn/store/testing';
import { ensureSealing, tellControllersSeal } from './sealing.ts';
import { type Cluster, readOptions, settle, sharedSchema } from '../settings.ts';
import { readCluster, writeCluster } from '../state.ts';

function clusterOf(hostname: string): Cluster {
  let count = 0;
  return settle(readOptions({}), undefined, {
    hostname,
    address: '192.0.2.7',
    now: new Date(0),
    newSecret: () => `secret number ${(count += 1)}`,
    authority: { certificate: 'CERTIFICATE', privateKey: 'PRIVATE KEY' },
  });
}

const hostOf = (id: string, sealingKeyId?: string) => ({
  put: cellKeys.host(id),
  value: JSON.stringify({
    id,
    address: '192.0.2.7',
    apiPort: 1113,
    capacity: { memoryBytes: 1, cpuMillis: 1 },
    startedAt: 0,
    ...(sealingKeyId === undefined ? {} : { sealingKeyId }),
  }),
});

test('a new cluster seals from its first secret on', async () => {
  const cluster = clusterOf('h1');
  await using raw = openTestStore();
  assert.deepEqual(await ensureSealing(raw, cluster), []);
  const store = new SealedStore(raw, { sealingKeys: async () => [cluster.sealingKey], log: silentLogger() });
  await store.transact({ then: [{ put: '/flynn/resource/app/a', value: '{}' }] });
  assert.ok(isSealed((await raw.get('/flynn/resource/app/a'))?.value ?? ''));
  const before = await readRing(raw);
  assert.deepEqual(await ensureSealing(raw, cluster), []);
  assert.deepEqual(await readRing(raw), before);
});

test('a cluster of old seals once its controllers and its last host can open what is sealed', async () => {
  const cluster = clusterOf('h1');
  const { id } = sealKeyOf(cluster.sealingKey);
  await using store = openTestStore();
  await store.transact({ then: [{ put: '/flynn/resource/app/a', value: '{}' }, hostOf('h1', id), hostOf('h2')] });
  assert.deepEqual(await ensureSealing(store, cluster), ['the platform', 'host h2']);
  await tellControllersSeal(store, cluster);
  assert.deepEqual(await ensureSealing(store, cluster), ['host h2']);
  await store.transact({ then: [hostOf('h2', 'of another cluster')] });
  assert.deepEqual(await ensureSealing(store, cluster), ['host h2']);
  assert.equal(await readRing(store), undefined);
  await store.transact({ then: [hostOf('h2', id)] });
  assert.deepEqual(await ensureSealing(store, cluster), []);
  assert.ok((await readRing(store))?.ring.rewriting !== undefined);
});

test('the key is root’s alone, goes to hosts that join, and is the same on all hosts of a cluster of old', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'flynn-sealing-'));
  try {
    const cluster = clusterOf('h1');
    assert.deepEqual(await readSealingKeys(folder), []);
    await addSealingKeys(folder, [cluster.sealingKey]);
    assert.equal((await stat(join(folder, 'sealing.key'))).mode & 0o777, 0o600);
    assert.deepEqual(await readSealingKeys(folder), [cluster.sealingKey]);
    assert.equal(sharedSchema.parse(cluster).sealingKey, cluster.sealingKey);

    await writeCluster(folder, cluster);
    assert.deepEqual(await readCluster(folder), cluster);
    const { sealingKey: _, ...old } = cluster;
    await writeFile(join(folder, 'cluster.json'), JSON.stringify(old));
    const first = await readCluster(folder);
    await writeFile(join(folder, 'cluster.json'), JSON.stringify({ ...old, hostId: 'h2' }));
    const second = await readCluster(folder);
    assert.equal(first?.sealingKey, second?.sealingKey);
    assert.notEqual(first?.sealingKey, cluster.sealingKey);
    assert.ok(!(await readFile(join(folder, 'cluster.json'), 'utf8')).includes(first?.sealingKey ?? ''));
  } finally {
    await rm(folder, { recursive: true });
  }
});
