import assert from 'node:assert/strict';
import { mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { startEtcdCluster } from '@flynn/store/etcd-cluster';
import type { EtcdCluster } from '@flynn/store/etcd-cluster';
import { verifySnapshot } from '@flynn/store/snapshot-file';
import { backUp } from './backup.ts';

const image = process.env['FLYNN_TEST_ETCD_IMAGE'];
let cluster: EtcdCluster;
let folder: string;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'flynn-backup-'));
  cluster = await startEtcdCluster({ ...(image === undefined ? {} : { image }), members: 1, tls: true });
});
after(async () => {
  await cluster.stop();
  await rm(folder, { recursive: true });
});

/** As `agent.env` has it. */
async function environmentOf(endpoints: readonly string[]): Promise<Record<string, string>> {
  const files = { ca: join(folder, 'ca.pem'), cert: join(folder, 'cert.pem'), key: join(folder, 'key.pem') };
  await writeFile(files.ca, cluster.tls?.ca ?? '');
  await writeFile(files.cert, cluster.tls?.certificate ?? '');
  await writeFile(files.key, cluster.tls?.privateKey ?? '', { mode: 0o600 });
  return {
    FLYNN_HOST_ID: 'h1',
    FLYNN_ETCD_ENDPOINTS: endpoints.join(','),
    FLYNN_ETCD_CA_FILE: files.ca,
    FLYNN_ETCD_CERT_FILE: files.cert,
    FLYNN_ETCD_KEY_FILE: files.key,
  };
}

const deadEndpoint = 'https://127.0.0.1:1';

test('a backup comes from the first member that answers, whole, for its owner alone', async () => {
  const file = join(folder, 'etcd.snapshot');
  const environment = await environmentOf([deadEndpoint, ...cluster.endpoints]);
  const { bytes, sha256, endpoint, isAlone } = await backUp({ stateDir: folder, environment }, file);
  assert.deepEqual([endpoint, isAlone], [cluster.endpoints[0], false]);
  assert.deepEqual(await verifySnapshot(file), { bytes, sha256 });
  assert.equal((await stat(file)).mode & 0o777, 0o600);
});

test('a member that lost the others gives what it has, and that it is alone is told', async () => {
  const three = await startEtcdCluster({ ...(image === undefined ? {} : { image }), members: 3 });
  try {
    const [lone, ...others] = three.members;
    assert.ok(lone !== undefined);
    const file = join(folder, 'alone.snapshot');
    const environment = { FLYNN_HOST_ID: 'h1', FLYNN_ETCD_ENDPOINTS: lone.endpoint };
    const save = () => backUp({ stateDir: folder, environment }, file);
    await waitFor(async () => !(await save()).isAlone, { what: 'a backup of three', deadlineMs: 60_000 });
    await Promise.all(others.map((other) => other.freeze()));
    // Until it notices it still gives it as one of three.
    await waitFor(async () => (await save()).isAlone, { what: 'the member to be alone', deadlineMs: 60_000 });
    const { bytes, sha256 } = await save();
    assert.deepEqual(await verifySnapshot(file), { bytes, sha256 });
  } finally {
    await three.stop();
  }
});

test('with no member that answers there is no file, and each is told', async () => {
  const file = join(folder, 'none.snapshot');
  const environment = await environmentOf([deadEndpoint]);
  await assert.rejects(
    backUp({ stateDir: folder, environment }, file),
    (error) =>
      hasCode(error, 'unavailable') &&
      /no member of etcd gave a snapshot:\n {2}https:\/\/127\.0\.0\.1:1: .*ECONNREFUSED/.test(error.message),
  );
  assert.ok(!(await readdir(folder)).some((name) => name.includes('none.snapshot')));
});

test('a folder that is not there is said to be the trouble, not etcd', async () => {
  const environment = await environmentOf(cluster.endpoints);
  await assert.rejects(
    backUp({ stateDir: folder, environment }, join(folder, 'missing', 'etcd.snapshot')),
    /cannot save .*missing\/etcd\.snapshot: ENOENT/,
  );
});
