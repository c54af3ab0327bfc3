import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { admissionSchema } from '@flynn/host-agent/cluster/join-server';
import { admissionFile, trustedOnly } from '@flynn/host-agent/trust/authorities';
import { createAuthority } from '@flynn/kit/tls';
import { writeHostFiles } from '../steps/host.ts';
import { made } from '../cluster-fixture.ts';
import { type Cluster, sharedSchema } from '../settings.ts';
import { readCluster } from '../state.ts';

test('what a host starts from names both authorities while there are two; its certificate stays until the other one issues', async () => {
  const stateDir = await mkdtemp(join(tmpdir(), 'flynn-certificates-'));
  const [former, next] = [await createAuthority('flynn'), await createAuthority('flynn')];
  const { authority: _, ...rest } = { ...made(), joinSecret: 'a secret of some length' };
  const look = async (part: Pick<Cluster, 'authority' | 'alsoTrusted'>) => {
    await writeHostFiles(stateDir, { ...rest, ...part });
    const text = await readFile(join(stateDir, admissionFile), 'utf8');
    const { authority, alsoTrusted } = sharedSchema.parse(admissionSchema.parse(JSON.parse(text)).settings);
    assert.deepEqual({ authority, alsoTrusted }, { alsoTrusted: undefined, ...part }, 'as who joins is told');
    assert.deepEqual(await readCluster(stateDir), { ...rest, ...part });
    return {
      trusted: await readFile(join(stateDir, 'tls/authority.pem'), 'utf8'),
      own: await readFile(join(stateDir, 'tls/host.pem'), 'utf8'),
    };
  };
  try {
    const first = await look({ authority: former });
    assert.equal(first.trusted, former.certificate);
    const opening = await look({ authority: former, alsoTrusted: await trustedOnly(next) });
    assert.deepEqual(opening, { trusted: former.certificate + next.certificate, own: first.own });
    const issuing = await look({ authority: next, alsoTrusted: await trustedOnly(former) });
    assert.equal(issuing.trusted, next.certificate + former.certificate);
    assert.notEqual(issuing.own, first.own);
    assert.deepEqual(await look({ authority: next }), { trusted: next.certificate, own: issuing.own });
  } finally {
    await rm(stateDir, { recursive: true });
  }
});
