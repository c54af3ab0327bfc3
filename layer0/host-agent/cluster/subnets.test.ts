import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import type { Store } from '@flynn/store/store';
import { openTestStore } from '@flynn/store/testing';
import { leaseKey } from '../network/lease.ts';
import { leaseSubnet, releaseSubnet, subnetsOf } from './subnets.ts';

const ask = (hostId: string, address: string, range = '100.100.0.0/16') => ({ hostId, address, range, now: 1 });

test('a range has as many subnets as fit', () => {
  assert.deepEqual(
    [...subnetsOf('100.100.0.0/22')],
    ['0', '1', '2', '3'].map((third) => `100.100.${third}.0/24`),
  );
  assert.equal([...subnetsOf('10.0.0.0/16')].length, 256);
});

test('hosts that ask at once get different subnets, and the same again', async () => {
  await using store = openTestStore();
  const leases = await Promise.all(
    Array.from({ length: 8 }, (_, index) => leaseSubnet(store, ask(`h${index}`, `192.0.2.${index + 1}`))),
  );
  assert.equal(new Set(leases.map(({ subnet }) => subnet)).size, 8);
  const again = await leaseSubnet(store, ask('h3', '192.0.2.4'));
  assert.deepEqual(again, leases[3]);
});

test('a host id belongs to one address; what was given back is given out again; a full range is told', async () => {
  await using store = openTestStore();
  const range = '100.100.0.0/23';
  await leaseSubnet(store, ask('h1', '192.0.2.1', range));
  await leaseSubnet(store, ask('h2', '192.0.2.2', range));
  await assert.rejects(
    leaseSubnet(store, ask('h1', '192.0.2.9', range)),
    (error) => hasCode(error, 'conflict') && /host h1 at 192\.0\.2\.1/.test(error.message),
  );
  const moved = await leaseSubnet(store, ask('h1', '192.0.2.9', range), { mayMove: true });
  assert.deepEqual([moved.address, moved.subnet], ['192.0.2.9', '100.100.0.0/24']);
  await assert.rejects(leaseSubnet(store, ask('h3', '192.0.2.3', range)), (error) => hasCode(error, 'exhausted'));
  await releaseSubnet(store, 'h2');
  await releaseSubnet(store, 'h2');
  assert.equal((await leaseSubnet(store, ask('h3', '192.0.2.3', range))).subnet, '100.100.1.0/24');
});

test('subnets never overlap, whatever the first host chose, and an address is of one host', async () => {
  await using store = openTestStore();
  await leaseSubnet(store, { ...ask('h1', '192.0.2.1'), subnet: '100.100.0.0/20' });
  assert.equal((await leaseSubnet(store, ask('h2', '192.0.2.2'))).subnet, '100.100.16.0/24');
  await assert.rejects(
    leaseSubnet(store, ask('h3', '192.0.2.2')),
    (error) => hasCode(error, 'conflict') && /192\.0\.2\.2 is the address of host h2/.test(error.message),
  );
});

test('no host gets a subnet that the address of a host is in, its own or another', async () => {
  await using store = openTestStore();
  await leaseSubnet(store, ask('h1', '100.100.2.9'));
  const leases = [await leaseSubnet(store, ask('h2', '100.100.1.9'))];
  leases.push(await leaseSubnet(store, { ...ask('h3', '100.100.4.9'), site: 'home' }));
  leases.push(await leaseSubnet(store, ask('h4', '192.0.2.4')));
  assert.deepEqual(
    leases.map(({ subnet }) => subnet),
    ['100.100.3.0/24', '100.100.5.0/24', '100.100.6.0/24'],
  );
});

test('no host moves to the address of another, or takes back a subnet that was given on', async () => {
  await using store = openTestStore();
  await leaseSubnet(store, ask('h1', '192.0.2.1'));
  const { subnet } = await leaseSubnet(store, ask('h2', '192.0.2.2'));
  await assert.rejects(
    leaseSubnet(store, ask('h2', '192.0.2.1'), { mayMove: true }),
    (error) => hasCode(error, 'conflict') && /192\.0\.2\.1 is the address of host h1/.test(error.message),
  );
  await releaseSubnet(store, 'h2');
  await leaseSubnet(store, ask('h3', '192.0.2.3'));
  await assert.rejects(
    leaseSubnet(store, { ...ask('h2', '192.0.2.2'), subnet }),
    (error) => hasCode(error, 'conflict') && /is that of h3 by now: flynn-host uninstall/.test(error.message),
  );
});

test('no host joins while a lease cannot be read: its subnet would be given a second time, and the key is named', async () => {
  await using store = openTestStore();
  await store.transact({ then: [{ put: leaseKey('h1'), value: '{"subnets":["100.100.0.0/24"]}' }] });
  await assert.rejects(
    leaseSubnet(store, ask('h2', '192.0.2.2')),
    (error) => hasCode(error, 'invalid') && error.message.includes(leaseKey('h1')),
  );
});

test('a subnet whose host was deleted without it is free', async () => {
  await using store = openTestStore();
  const range = '100.100.0.0/24';
  await leaseSubnet(store, ask('h1', '192.0.2.1', range));
  await store.transact({ then: [{ delete: leaseKey('h1') }] });
  assert.equal((await leaseSubnet(store, ask('h2', '192.0.2.2', range))).subnet, '100.100.0.0/24');
});

test('of hosts that find one so at once, none frees it after another has taken it', async () => {
  await using store = openTestStore();
  await leaseSubnet(store, ask('h1', '192.0.2.1'));
  await store.transact({ then: [{ delete: leaseKey('h1') }] });
  let isFirst = true;
  const slow: Store = {
    ...store,
    get: (...args) => store.get(...args),
    list: (...args) => store.list(...args),
    async transact(request, options) {
      if (isFirst && request.then.some((operation) => 'delete' in operation)) {
        isFirst = false;
        await leaseSubnet(store, ask('h2', '192.0.2.2'));
      }
      return await store.transact(request, options);
    },
  };
  assert.equal((await leaseSubnet(slow, ask('h3', '192.0.2.3'))).subnet, '100.100.1.0/24');
  assert.equal(isFirst, false);
  const { entries } = await store.list('/flynn/network/subnets/');
  assert.deepEqual(
    entries.map(({ key, value }) => [key.split('/').at(-1), value]),
    [
      ['100.100.0.0-24', '{"hostId":"h2"}'],
      ['100.100.1.0-24', '{"hostId":"h3"}'],
    ],
  );
});

test('a host behind NAT is reached at its gateway; its own address is of its network alone', async () => {
  await using store = openTestStore();
  await leaseSubnet(store, ask('h1', '10.0.0.2'));
  const asked = { ...ask('h2', '10.0.0.2'), site: 'home' };
  const lease = await leaseSubnet(store, asked);
  assert.deepEqual(
    [lease.address, lease.subnet, lease.site, lease.localAddress],
    ['100.100.1.1', '100.100.1.0/24', 'home', '10.0.0.2'],
  );
  assert.deepEqual(await leaseSubnet(store, asked), lease);
  // The same address in another network is another machine; in the same it may have been given on.
  assert.equal((await leaseSubnet(store, { ...ask('h3', '10.0.0.2'), site: 'office' })).address, '100.100.2.1');
  assert.equal((await leaseSubnet(store, { ...ask('h4', '10.0.0.2'), site: 'home' })).address, '100.100.3.1');
});

test('a host behind NAT may get another address there, and never becomes one that all reach, nor the other way round', async () => {
  await using store = openTestStore();
  await leaseSubnet(store, ask('h1', '192.0.2.1'));
  await leaseSubnet(store, { ...ask('h2', '10.0.0.2'), site: 'home' });
  const moved = await leaseSubnet(store, { ...ask('h2', '10.0.0.7'), site: 'home' }, { mayMove: true });
  assert.deepEqual([moved.address, moved.localAddress], ['100.100.1.1', '10.0.0.7']);
  const isTaken = (pattern: RegExp) => (error: unknown) => hasCode(error, 'conflict') && pattern.test(error.message);
  await assert.rejects(
    leaseSubnet(store, ask('h2', '10.0.0.7'), { mayMove: true }),
    isTaken(/host h2 at 10\.0\.0\.7 behind the NAT of home/),
  );
  await assert.rejects(
    leaseSubnet(store, { ...ask('h1', '192.0.2.1'), site: 'home' }, { mayMove: true }),
    isTaken(/host h1 at 192\.0\.2\.1 already/),
  );
  await assert.rejects(
    leaseSubnet(store, { ...ask('h2', '10.0.0.8'), site: 'home' }),
    isTaken(/host h2 at 10\.0\.0\.7/),
  );
});

test('a lease that cannot be read goes when that is forced, and its subnet is for others', async () => {
  await using store = openTestStore();
  const before = await leaseSubnet(store, ask('h1', '192.0.2.1'));
  const other = await leaseSubnet(store, ask('h2', '192.0.2.2'));
  await store.transact({ then: [{ put: leaseKey('h1'), value: '{"hostId":"h1","subnets":[]}' }] });
  await assert.rejects(releaseSubnet(store, 'h1'), { code: 'invalid' });
  await assert.rejects(leaseSubnet(store, ask('h3', '192.0.2.3')), { code: 'invalid' });
  assert.equal(await releaseSubnet(store, 'h1', { isForced: true }), undefined);
  assert.equal((await leaseSubnet(store, ask('h3', '192.0.2.3'))).subnet, before.subnet);
  assert.deepEqual(await releaseSubnet(store, 'h2', { isForced: true }), other);
});
