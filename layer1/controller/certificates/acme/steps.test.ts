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
import { checkCertificate } from '../check.ts';
import { put } from '../put.ts';
import { certificateType } from '../resources.ts';
import type { Authority } from './authority.ts';
import { acmeId, acmeType } from './resources.ts';
import type { AcmeSpec } from './resources.ts';
import { renewalMs } from './schedule.ts';
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

describe('an order in whose place there is something else by its end', () => {
  const domains = ['app.test'];
  const spec = { source: 'acme' as const, domains, isAutomatic: false };
  const proof = { domain: 'app.test', token: 't', value: 'v' };
  const { signal } = new AbortController();

  /** `meanwhile` is done while the order is under way; then it `fails`, at the latest. */
  async function order(
    t: TestContext,
    meanwhile: (world: Awaited<ReturnType<typeof setUp>>) => Promise<void>,
    end: 'fails' | 'presents' | 'is issued',
  ) {
    const world = await setUp(t);
    const { resources, deps, ca } = world;
    await resources.create(acmeType, { id: acmeId, spec: specOf('https://live.test') });
    await resources.create(certificateType, { id: 'c1', spec });
    const orders: (readonly string[])[] = [];
    const open = (): Authority => ({
      register: async () => 'https://live.test/account',
      async order({ domains: asked, present }) {
        orders.push(asked);
        if (orders.length > 1) throw new FlynnError('unavailable', 'no such names');
        if (end !== 'presents') await present([proof]);
        await meanwhile(world);
        if (end === 'presents') await present([proof]);
        if (end === 'is issued') return issueCertificate(ca, { name: 'app.test', addresses: domains });
        throw new FlynnError('unavailable', 'no answer');
      },
    });
    const step = () => stepCertificate(deps, 'c1', { signal, open });
    assert.deepEqual(await step(), { againInMs: 0 });
    return { ...world, step, orders, after: await resources.get(certificateType, 'c1') };
  }

  const ends = ['fails', 'presents', 'is issued'] as const;

  for (const end of ends) {
    test(`leaves one that people brought as it is: ${end}`, async (t) => {
      const own = async ({ resources, ca }: Awaited<ReturnType<typeof setUp>>) => {
        const body = { ...(await issueCertificate(ca, { name: 'app.test', addresses: domains })), domains };
        const brought = {
          source: 'own' as const,
          domains,
          own: checkCertificate({ ...body, nowMs: Date.now() }),
          isAutomatic: false,
        };
        const replace = () => certificateType.initialStatus();
        await put({ resources }, brought, { replace, signal });
      };
      const { after, step, orders } = await order(t, own, end);
      assert.equal(after.spec.source, 'own');
      assert.deepEqual(after.status, certificateType.initialStatus());
      assert.equal(await step(), undefined);
      assert.deepEqual(orders, [domains]);
    });

    test(`delays nothing that is asked for other names, which are ordered at once: ${end}`, async (t) => {
      const names = ['app.test', 'www.test'];
      const request = async ({ resources }: Awaited<ReturnType<typeof setUp>>) => {
        await put({ resources }, { ...spec, domains: names }, { replace: ({ status }) => status, signal });
      };
      const { after, step, orders, resources } = await order(t, request, end);
      // What was given is good for the one name: it is shown there until there is one for both.
      const { issued, ...rest } = after.status;
      const issuedFor = end === 'is issued' ? domains : [];
      assert.deepEqual(rest, { ...certificateType.initialStatus(), issuedFor });
      assert.equal(issued !== undefined, end === 'is issued');
      await step();
      assert.deepEqual(orders, [domains, names]);
      const { status } = await resources.get(certificateType, 'c1');
      assert.deepEqual([status.failure?.count, status.issued, status.issuedFor], [1, issued, issuedFor]);
    });
  }

  test('for none of the names that are wanted by now, or taking some away, what was given is dropped', async (t) => {
    const others = async ({ resources }: Awaited<ReturnType<typeof setUp>>) => {
      await resources.change(certificateType, 'c1', ({ status }) => ({
        spec: { ...spec, domains: ['b.test'] },
        status,
      }));
    };
    const { after } = await order(t, others, 'is issued');
    assert.deepEqual(after.status, certificateType.initialStatus());

    const names = ['app.test', 'www.test'];
    const both = async ({ resources, ca }: Awaited<ReturnType<typeof setUp>>) => {
      const made = await issueCertificate(ca, { name: 'app.test', addresses: names });
      const issued = { ...checkCertificate({ ...made, domains: names, nowMs: Date.now() }), notes: [] };
      await resources.change(certificateType, 'c1', ({ status }) => ({
        spec: { ...spec, domains: names },
        status: { ...status, issued, issuedFor: names },
      }));
    };
    const { after: kept } = await order(t, both, 'is issued');
    assert.deepEqual(kept.status.issuedFor, names);
  });
});

test('a name that cannot be proven costs those that there is a certificate for no renewal', async (t) => {
  const { resources, deps, ca } = await setUp(t);
  await resources.create(acmeType, { id: acmeId, spec: specOf('https://live.test') });
  const domains = ['app.test', 'www.test'];
  const { signal } = new AbortController();
  let nowMs = Date.now();
  const make = () => issueCertificate(ca, { name: 'app.test', addresses: ['app.test'] });
  const dayMs = 86_400_000;
  const issued = {
    ...checkCertificate({ ...(await make()), domains: ['app.test'], nowMs }),
    notBefore: new Date(nowMs - 60 * dayMs).toISOString(),
    notAfter: new Date(nowMs + 28 * dayMs).toISOString(),
    notes: [],
  };
  await resources.create(certificateType, { id: 'c1', spec: { source: 'acme', domains, isAutomatic: false } });
  await resources.updateStatus(
    certificateType,
    'c1',
    ({ status }) => ({ ...status, issued, issuedFor: ['app.test'] }),
    { signal },
  );
  const orders: string[] = [];
  let isAway = false;
  const open = (): Authority => ({
    register: async () => 'https://live.test/account',
    async order({ domains: asked }) {
      orders.push(asked.join('+'));
      if (isAway || asked.includes('www.test')) throw new FlynnError('unavailable', 'no such name');
      return make();
    },
  });
  const step = () => stepCertificate({ ...deps, now: () => nowMs }, 'c1', { signal, open, random: () => 1 });
  const status = async () => (await resources.get(certificateType, 'c1')).status;
  await step();
  const renewal = renewalMs('c1', issued);
  nowMs += 3_600_000;
  assert.ok(nowMs < renewal);
  await step();
  assert.deepEqual(orders, ['app.test+www.test', 'app.test+www.test'], 'it is not time yet');
  nowMs = renewal + dayMs;
  isAway = true;
  await step();
  isAway = false;
  nowMs += dayMs;
  await step();
  const renewed = await status();
  assert.notEqual(renewed.issued?.certificate, issued.certificate);
  assert.deepEqual(
    [renewed.issuedFor, renewed.failure?.count],
    [['app.test'], 3],
    'what is wrong with www is not forgotten',
  );
  await step();
  const again = await step();
  assert.deepEqual(orders.slice(2), ['app.test', 'app.test', 'app.test+www.test'], 'the rest at once, then as before');
  assert.ok(again !== undefined && again.againInMs > 0);
  const { issued: kept, failure } = await status();
  assert.deepEqual([kept, failure?.count], [renewed.issued, 4]);
});

test('a failure that was noted by a clock that was ahead is waited for no longer', async (t) => {
  const { resources, deps } = await setUp(t);
  await resources.create(acmeType, { id: acmeId, spec: specOf('https://live.test') });
  const spec = { source: 'acme' as const, domains: ['app.test'], isAutomatic: false };
  await resources.create(certificateType, { id: 'c1', spec });
  let tries = 0;
  const open = (): Authority => ({
    register: async () => 'https://live.test/account',
    async order() {
      tries += 1;
      throw new FlynnError('unavailable', 'certificate is over');
    },
  });
  const { signal } = new AbortController();
  const ahead = { ...deps, now: () => Date.now() + 3 * 365 * 86_400_000 };
  await stepCertificate(ahead, 'c1', { signal, open });
  await stepCertificate(deps, 'c1', { signal, open });
  assert.equal(tries, 2);
  const again = await stepCertificate(deps, 'c1', { signal, open });
  assert.ok(again !== undefined && again.againInMs > 60_000 && again.againInMs <= 600_000);
  assert.equal(tries, 2);
});

test('what the authority gives for another challenge alone it is not asked for', async (t) => {
  const { resources, deps } = await setUp(t);
  await resources.create(acmeType, { id: acmeId, spec: specOf('https://live.test') });
  const spec = { source: 'acme' as const, domains: ['*.app.test'], isAutomatic: true };
  await resources.create(certificateType, { id: 'c1', spec });
  const open = (): Authority => assert.fail('it was asked');
  await stepCertificate(deps, 'c1', { signal: new AbortController().signal, open });
  const { failure } = (await resources.get(certificateType, 'c1')).status;
  assert.match(failure?.message ?? '', /\*\.app\.test for dns-01 alone/);
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

test('an account that its authority has forgotten is made again at once; forgotten again, that is a failure as any', async (t) => {
  const { resources, deps, ca } = await setUp(t);
  const status = { accountUrl: 'https://live.test/of-before' };
  await resources.create(acmeType, { id: acmeId, spec: specOf('https://live.test') });
  await resources.updateStatus(acmeType, acmeId, () => status);
  const spec = { source: 'acme' as const, domains: ['app.test'], isAutomatic: false };
  await resources.create(certificateType, { id: 'c1', spec });
  const known = new Set<string>();
  const open = (_spec: AcmeSpec, kept?: string): Authority => ({
    register: async () => kept ?? 'https://live.test/anew',
    async order() {
      const forgotten = { detail: { isAccountForgotten: true } };
      if (!known.has(kept ?? 'https://live.test/anew')) throw new FlynnError('not_found', 'no such account', forgotten);
      return issueCertificate(ca, { name: 'app.test', addresses: ['app.test'] });
    },
  });
  const { signal } = new AbortController();
  const step = () => stepCertificate(deps, 'c1', { signal, open });
  const after = async () => {
    await step();
    const { accountUrl } = (await resources.get(acmeType, acmeId)).status;
    const { failure, issued } = (await resources.get(certificateType, 'c1')).status;
    return [accountUrl, failure?.count, issued !== undefined];
  };
  assert.deepEqual(await after(), [undefined, undefined, false], 'forgotten');
  assert.deepEqual(await after(), ['https://live.test/anew', 1, false], 'the new one is not known either');
  known.add('https://live.test/anew');
  await resources.updateStatus(certificateType, 'c1', ({ status: { failure: _failure, ...rest } }) => rest);
  assert.deepEqual(await after(), ['https://live.test/anew', undefined, true]);
});
