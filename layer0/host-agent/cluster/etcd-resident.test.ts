import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { etcdQuotaBytes, etcdResident, residentFile } from './etcd-resident.ts';

test("the quota is the one the host's member runs with, and where it has none what others have", async () => {
  const stateDir = await mkdtemp(join(tmpdir(), 'flynn-quota-'));
  try {
    const usual = await etcdQuotaBytes(stateDir);
    const options = { cluster: 'flynn', hostId: 'h1', address: '192.0.2.1', image: 'etcd:1', stateDir };
    const text = JSON.stringify(etcdResident(options));
    assert.ok(text.includes(`--quota-backend-bytes=${usual}"`));
    const file = residentFile(stateDir);
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, text.replace(`bytes=${usual}"`, 'bytes=67108864"'));
    assert.equal(await etcdQuotaBytes(stateDir), 67_108_864);
  } finally {
    await rm(stateDir, { recursive: true, force: true });
  }
});
