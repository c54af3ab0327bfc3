import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { FlynnError } from '@flynn/kit/errors';
import { newId } from '@flynn/kit/ids';
import { silentLogger } from '@flynn/kit/log';
import { createAuthority, issueCertificate } from '@flynn/kit/tls';
import { ResourceService } from '@flynn/resource/service';
import { createMemoryStore } from '@flynn/store/memory';
import { openCellView } from '../../mirrors/cell-view.ts';
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

async function setUp(t: TestContext) {
  const store = createMemoryStore();
  const log = silentLogger();
  const cell = await openCellView({ store, log });
  t.after(async () => {
    await cell[Symbol.asyncDispose]();
    await store[Symbol.asyncDispose]();
  });
  const resources = new ResourceService({ store, now: Date.now, newId, log });
  const deps = { resources, now: Date.now, log, cell, settings: { httpPort: 80, httpsPort: 443 } };
  return { resources, deps, ca: await createAuthority('an authority') };
}

/** Says what it was told, and fails what `fails` says. */
async function startHook(t: TestContext, fails: (action: string) => boolean = () => false) {
  const told: string[] = [];
  const server = createServer((incoming, response) => {
    void text(incoming).then((body) => {
      const { action, value } = JSON.parse(body);
      told.push(`${action} ${value}`);
      response.writeHead(fails(action) ? 500 : 200).end();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  return { told, hook: { url: `http://127.0.0.1:${address.port}/` } };
}

describe('DNS records of an order', () => {
  const dnsSpec = (hook: { url: string }): AcmeSpec => ({ ...specOf('https://live.test'), challenge: 'dns-01', hook });
  const spec = { source: 'acme' as const, domains: ['app.test'], isAutomatic: false };
  const proofOf = (value: string) => ({ domain: 'app.test', token: 't', value });

  test('of who is told to stop in the middle are cleaned up by who comes next, before anything else', async (t) => {
    const { resources, deps, ca } = await setUp(t);
    const { told, hook } = await startHook(t);
    await resources.create(acmeType, { id: acmeId, spec: dnsSpec(hook) });
    await resources.create(certificateType, { id: 'c1', spec });
    const stop = new AbortController();
    const open = (): Authority => ({
      register: async () => 'https://live.test/account',
      async order({ present }) {
        await present([proofOf('v1')]);
        stop.abort(new FlynnError('cancelled', 'the seat is another’s'));
        throw new FlynnError('cancelled', 'the seat is another’s');
      },
    });
    await assert.rejects(stepCertificate(deps, 'c1', { signal: stop.signal, open }), { code: 'cancelled' });
    assert.deepEqual(told, ['present v1']);
    const next = (): Authority => ({
      register: async () => 'https://live.test/account',
      async order({ present }) {
        await present([proofOf('v2')]);
        return issueCertificate(ca, { name: 'app.test', addresses: ['app.test'] });
      },
    });
    await stepCertificate(deps, 'c1', { signal: new AbortController().signal, open: next });
    assert.deepEqual(told, ['present v1', 'cleanup v1', 'present v2', 'cleanup v2']);
  });

  test('that a worker left behind, or its hook, are cleaned up with the next try', async (t) => {
    const { resources, deps, ca } = await setUp(t);
    let isAway = true;
    const { told, hook } = await startHook(t, (action) => isAway && action === 'cleanup');
    await resources.create(acmeType, { id: acmeId, spec: dnsSpec(hook) });
    await resources.create(certificateType, { id: 'c1', spec });
    let orders = 0;
    const open = (): Authority => ({
      register: async () => 'https://live.test/account',
      async order({ present }) {
        orders += 1;
        await present([proofOf(`v${orders}`)]);
        if (orders === 1) throw new FlynnError('unavailable', 'no answer');
        return issueCertificate(ca, { name: 'app.test', addresses: ['app.test'] });
      },
    });
    const { signal } = new AbortController();
    await stepCertificate(deps, 'c1', { signal, open });
    const failed = await resources.find(certificateType, 'c1');
    assert.deepEqual(failed?.status.records, [{ name: '_acme-challenge.app.test', value: 'v1' }]);
    isAway = false;
    told.length = 0;
    await stepCertificate({ ...deps, now: () => Date.now() + 86_400_000 }, 'c1', { signal, open });
    assert.deepEqual(told, ['cleanup v1', 'present v2', 'cleanup v2']);
    const issued = await resources.find(certificateType, 'c1');
    assert.ok(issued?.status.issued !== undefined);
    assert.deepEqual(issued.status.records, []);
  });
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
