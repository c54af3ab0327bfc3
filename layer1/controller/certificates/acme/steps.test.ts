import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newId } from '@flynn/kit/ids';
import { silentLogger } from '@flynn/kit/log';
import { createAuthority, issueCertificate } from '@flynn/kit/tls';
import { ResourceService } from '@flynn/resource/service';
import { createMemoryStore } from '@flynn/store/memory';
import { openCellView } from '../../cell-view.ts';
import { certificateType } from '../resources.ts';
import type { Authority } from './authority.ts';
import { acmeId, acmeType } from './resources.ts';
import type { AcmeSpec } from './resources.ts';
import { stepCertificate } from './steps.ts';

const specOf = (directoryUrl: string): AcmeSpec => ({
  directoryUrl,
  contact: [],
  challenge: 'http-01',
  isAutomatic: false,
  privateKey: `the account's at ${directoryUrl}`,
});

test('an authority that is set while there is an account being made at another gets one of its own', async () => {
  await using store = createMemoryStore();
  const log = silentLogger();
  await using cell = await openCellView({ store, log });
  const resources = new ResourceService({ store, now: Date.now, newId, log });
  const ca = await createAuthority('an authority');
  await resources.create(acmeType, { id: acmeId, spec: specOf('https://staging.test') });
  const spec = { source: 'acme' as const, domains: ['app.test'], isAutomatic: false };
  await resources.create(certificateType, { id: 'c1', spec });
  const orders: string[] = [];
  const open = ({ directoryUrl }: AcmeSpec, known?: string): Authority => ({
    async register() {
      if (known !== undefined) return known;
      if (directoryUrl === 'https://staging.test') {
        const change = () => ({ spec: specOf('https://live.test'), status: acmeType.initialStatus() });
        await resources.change(acmeType, acmeId, change);
      }
      return `${directoryUrl}/account`;
    },
    async order() {
      orders.push(directoryUrl);
      return issueCertificate(ca, { name: 'app.test', addresses: ['app.test'] });
    },
  });
  const { signal } = new AbortController();
  const deps = {
    resources,
    now: Date.now,
    log,
    cell,
    settings: { httpPort: 80, httpsPort: 443 },
  };
  const step = () => stepCertificate(deps, 'c1', { signal, open });
  assert.deepEqual(await step(), { againInMs: 0 });
  assert.deepEqual(orders, [], 'nothing is asked of the former one any more');
  await step();
  assert.deepEqual(orders, ['https://live.test']);
  const acme = await resources.find(acmeType, acmeId);
  assert.equal(acme?.status.accountUrl, 'https://live.test/account');
});
