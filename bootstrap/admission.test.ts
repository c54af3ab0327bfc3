import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { admissionSchema } from '@flynn/host-agent/cluster/join-server';
import { admissionFile } from '@flynn/host-agent/trust/authorities';
import { writeAdmission } from './admission.ts';
import { closing, withNextRootKey } from './rotation.ts';
import { type Cluster, readOptions, settle, sharedSchema } from './settings.ts';

test('who joins while the root key is made anew is told the one that all controllers take', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'flynn-admission-'));
  try {
    const authority = { certificate: 'CERTIFICATE', privateKey: 'PRIVATE KEY' };
    const before = settle(readOptions({}), undefined, {
      hostname: 'h1',
      address: '192.0.2.7',
      now: new Date(0),
      newSecret: () => 'the-former-secret',
      authority,
    });
    const told = async (cluster: Cluster): Promise<string> => {
      await writeAdmission(folder, cluster, authority);
      const text = await readFile(join(folder, admissionFile), 'utf8');
      return sharedSchema.parse(admissionSchema.parse(JSON.parse(text)).settings).controllerKey;
    };
    const changing = withNextRootKey(before, 'new', { id: 'i', since: 's' });
    assert.equal(await told(before), 'the-former-secret');
    assert.equal(await told(changing), 'the-former-secret');
    assert.equal(await told(closing(changing)), 'new');
  } finally {
    await rm(folder, { recursive: true });
  }
});
