import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { admissionFile } from '@flynn/host-agent/trust/authorities';
import { hasCode } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { createAuthority } from '@flynn/kit/tls';
import { withClosing, withIssuing, withNextAuthority } from '../rotation/authority-round.ts';
import { withStore } from '../platform/controller.ts';
import { asItIs, writeHostFiles } from './host.ts';
import { made } from '../cluster-fixture.ts';

test('what an up writes in the end is of the authorities that the agent has taken over as it started', async (t) => {
  const stateDir = await mkdtemp(join(tmpdir(), 'flynn-host-steps-'));
  t.after(() => rm(stateDir, { recursive: true, force: true }));
  const [former, next] = [await createAuthority('flynn'), await createAuthority('flynn')];
  const begun = await withNextAuthority({ ...made(), authority: former }, next, { id: 'one', since: 'now' });
  const { authorityChange: _1, ...opening } = begun;
  const { authorityChange: _2, ...issuing } = await withIssuing(begun);
  const { authorityChange: _3, ...closing } = withClosing(await withIssuing(begun));
  const nothing = { ring: undefined, live: undefined };
  for (const settings of [issuing, closing]) {
    await writeFile(join(stateDir, admissionFile), JSON.stringify({ settings }));
    assert.deepEqual(await asItIs(stateDir, opening, nothing), settings);
  }
  const live = { rootKeys: ['new'], rounds: [1], domain: 'apps.example.com' } as const;
  const known = await asItIs(stateDir, closing, { ring: undefined, live });
  assert.deepEqual(known, { ...closing, controllerKey: 'new', domain: 'apps.example.com' });
});

test('whoever looks into the store with what a file said before leaves the host the certificate that its agent has made since', async (t) => {
  const stateDir = await mkdtemp(join(tmpdir(), 'flynn-host-steps-'));
  t.after(() => rm(stateDir, { recursive: true, force: true }));
  const opening = await withNextAuthority(
    { ...made(), authority: await createAuthority('flynn'), etcdEndpoints: ['https://127.0.0.1:1'] },
    await createAuthority('flynn'),
    { id: 'one', since: 'now' },
  );
  await writeHostFiles(stateDir, withClosing(await withIssuing(opening)));
  const onDisk = () => Promise.all(['host.pem', 'authority.pem'].map((name) => readFile(join(stateDir, 'tls', name))));
  const before = await onDisk();
  const looking = withStore({ stateDir, cluster: opening, log: silentLogger() }, async () => undefined);
  await assert.rejects(looking, (error) => hasCode(error, 'unavailable', 'timeout'));
  assert.deepEqual(await onDisk(), before);
});
