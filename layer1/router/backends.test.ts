import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Instance } from '@flynn/discovery/api';
import type { LiveIdentity } from '@flynn/kit/identity';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { Backends } from './backends.ts';

const group = { 'flynn.group': 'g' };

function instanceOf(service: string, id: string, attributes: Record<string, string>): Instance {
  return { service, id, address: `100.100.0.${id}:80`, attributes, createdRevision: Number(id) };
}

async function backendsOf(
  service: string,
  instances: readonly Instance[],
  own?: { isEverybodyKnown: boolean },
): Promise<{ to: string; as: string | undefined }[]> {
  const identity: LiveIdentity | undefined =
    own === undefined
      ? undefined
      : { current: { trusted: '', certificate: '', privateKey: '' }, onChange: () => () => undefined, ...own };
  const set = { instances, leader: undefined, onChange: () => () => undefined, ready: Promise.resolve() };
  const discovery = { openServiceSet: async () => ({ ...set, silentSinceMs: undefined }) };
  using backends = new Backends({ discovery, identity, log: silentLogger() });
  backends.hold(service);
  const found = await backends.of(service);
  return found.map(({ address, mutual }) => ({ to: address, as: mutual?.server }));
}

const parts = (service: string) => [
  instanceOf(service, '1', { ...group, 'flynn.identity': service }),
  instanceOf(service, '2', group),
  instanceOf(service, '3', { app: service }),
];

test('of a part those are asked that agents announced; once all of the platform shows certificates, those that do', async () => {
  for (const service of ['controller', 'dashboard']) {
    const known = { to: '100.100.0.1:80', as: `flynn:app/${service}` };
    assert.deepEqual(await backendsOf(service, parts(service), { isEverybodyKnown: false }), [
      known,
      { to: '100.100.0.2:80', as: undefined },
    ]);
    assert.deepEqual(await backendsOf(service, parts(service), { isEverybodyKnown: true }), [
      known,
      { to: '100.100.0.2:80', as: `flynn:app/${service}` },
    ]);
  }
});

test('when the word changes that all of the platform shows certificates, its parts are asked by it, though none has moved', async () => {
  const own = {
    isEverybodyKnown: true,
    current: { trusted: '', certificate: '', privateKey: '' },
    onChange: () => () => undefined,
  };
  const [, former] = parts('controller');
  assert.ok(former !== undefined);
  const openServiceSet = async (service: string) => ({
    instances: [{ ...former, service }],
    leader: former,
    onChange: () => () => undefined,
    ready: Promise.resolve(),
    silentSinceMs: undefined,
  });
  using backends = new Backends({ discovery: { openServiceSet }, identity: own, log: silentLogger() });
  for (const name of ['controller', 'web']) backends.hold(name);
  const [web] = await backends.of('web');
  const [asPart] = await backends.of('controller');
  assert.equal(asPart?.mutual?.server, 'flynn:app/controller');
  for (const isEverybodyKnown of [false, true]) {
    own.isEverybodyKnown = isEverybodyKnown;
    const isSo = async () => {
      const [found] = await backends.of('controller');
      return (found?.mutual?.server === 'flynn:app/controller') === isEverybodyKnown;
    };
    await waitFor(isSo, { what: 'the part to be asked as it is', deadlineMs: 30_000 });
    assert.equal(backends.leaderOf('controller')?.address, former.address);
  }
  assert.equal((await backends.of('web'))[0], web);
});

test('who announces the address of a part, and no certificate, does not have it asked in clear', async () => {
  const part = instanceOf('controller', '1', { ...group, 'flynn.identity': 'controller' });
  const beside = { ...instanceOf('controller', '2', {}), address: part.address };
  const [found, ...others] = await backendsOf('controller', [part, beside], { isEverybodyKnown: false });
  assert.deepEqual([found?.as, others], ['flynn:app/controller', []]);
});

test('of other services all count, and without a certificate of its own a router asks everybody in clear', async () => {
  const own = { isEverybodyKnown: true };
  const addresses = ['100.100.0.2:80', '100.100.0.3:80'];
  const [, ...plain] = parts('web');
  assert.deepEqual(
    await backendsOf('web', plain, own),
    addresses.map((to) => ({ to, as: undefined })),
  );
  const [, ...ofPart] = parts('controller');
  assert.deepEqual(
    await backendsOf('controller', ofPart),
    addresses.map((to) => ({ to, as: undefined })),
  );
});
