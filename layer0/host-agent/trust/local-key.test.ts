import assert from 'node:assert/strict';
import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { readInstallation } from '../cli/installation.ts';
import { ensureLocalKey } from './local-key.ts';

test('root’s key on a host is made once, for root alone, and flynn-host comes with it; without an agent of now with the cluster’s', async (t) => {
  const stateDir = await mkdtemp(join(tmpdir(), 'flynn-local-key-'));
  t.after(() => rm(stateDir, { recursive: true, force: true }));
  await writeFile(join(stateDir, 'agent.env'), 'FLYNN_KEY=cluster\n');
  assert.equal((await readInstallation(stateDir)).localKey, undefined);
  const key = await ensureLocalKey(stateDir);
  assert.ok(key.length >= 32);
  assert.equal((await stat(join(stateDir, 'local.key'))).mode & 0o777, 0o600);
  assert.equal(await ensureLocalKey(stateDir), key);
  const { key: clusterKey, localKey } = await readInstallation(stateDir);
  assert.deepEqual([clusterKey, localKey], ['cluster', key]);
});
