import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { TaskGroup } from '@flynn/kit/tasks';
import { createMemoryStore } from '@flynn/store/memory';
import { leaseKey } from '../network/lease.ts';
import { memberKey } from './member-keys.ts';
import { tellOwnAddress } from './own-address.ts';
import { leaseSubnet } from './subnets.ts';

const range = '100.100.0.0/16';

test('a host that is somewhere else tells so, of itself and of its member of etcd, before anybody looks for it where it was', async () => {
  await using store = createMemoryStore();
  await using tasks = new TaskGroup();
  const address = async (key: string): Promise<unknown> => JSON.parse((await store.get(key))?.value ?? '{}').address;
  const tell = (hostId: string, to: string) =>
    tellOwnAddress(store, { hostId, address: to }, { log: silentLogger(), tasks, pauseMs: 5 });
  const { subnet } = await leaseSubnet(store, { hostId: 'h1', address: '10.0.0.1', range, now: 7 });
  await leaseSubnet(store, { hostId: 'h2', address: '10.0.0.2', range, now: 8 });
  const member = (state: string) => JSON.stringify({ address: '10.0.0.1', state, memberId: '11' });
  await store.transact({ then: [{ put: memberKey('h1'), value: member('voter') }] });

  await tell('h1', '10.0.0.9');
  assert.deepEqual(JSON.parse((await store.get(leaseKey('h1')))?.value ?? ''), {
    hostId: 'h1',
    address: '10.0.0.9',
    subnet,
    joinedAt: 7,
  });
  assert.equal(await address(memberKey('h1')), '10.0.0.9');
  const { revision } = await store.list('');
  await tell('h1', '10.0.0.9');
  await tell('h2', '10.0.0.2');
  assert.equal((await store.list('')).revision, revision, 'where nothing has changed nothing is written');

  // One that was removed from the cluster does not come back by itself.
  await tell('h3', '10.0.0.3');
  assert.equal(await store.get(leaseKey('h3')), undefined);
  await tell('h2', '10.0.0.9');
  assert.equal(await address(leaseKey('h2')), '10.0.0.2', 'another one is there');
  // Broken off in between, and one that is to become another member.
  await store.transact({ then: [{ put: memberKey('h1'), value: member('voter') }] });
  await tell('h1', '10.0.0.9');
  assert.equal(await address(memberKey('h1')), '10.0.0.9');
  await store.transact({ then: [{ put: memberKey('h1'), value: member('lost') }] });
  await tell('h1', '10.0.0.9');
  assert.equal(await address(memberKey('h1')), '10.0.0.1');
});

test('a host begins also where what the store has of its place cannot be read, and tells it once that can be', async () => {
  await using store = createMemoryStore();
  await using tasks = new TaskGroup();
  let looks = 0;
  const log = { ...silentLogger(), debug: () => void (looks += 1) };
  const untilLooked = async (more: number) => {
    const from = looks;
    await waitFor(() => looks >= from + more, { what: 'a few more tries', deadlineMs: 60_000, intervalMs: 1 });
  };
  const tell = () => tellOwnAddress(store, { hostId: 'h1', address: '10.0.0.9' }, { log, tasks, pauseMs: 5 });
  const text = async (key: string) => (await store.get(key))?.value;
  await leaseSubnet(store, { hostId: 'h1', address: '10.0.0.1', range, now: 7 });
  const lease = (await text(leaseKey('h1'))) ?? '';
  const [later, leaving] = ['{"hostId":"h1","addresses":["10.0.0.1"]}', '{"address":"10.0.0.1","state":"leaving"}'];
  await store.transact({
    then: [
      { put: leaseKey('h1'), value: later },
      { put: memberKey('h1'), value: leaving },
    ],
  });
  await tell();
  await untilLooked(3);
  assert.equal(await text(leaseKey('h1')), later);
  // Of another host it cannot be told whether that is at this address.
  await store.transact({
    then: [
      { put: leaseKey('h1'), value: lease },
      { put: leaseKey('h2'), value: later },
    ],
  });
  await untilLooked(3);
  assert.equal(await text(leaseKey('h1')), lease);
  await store.transact({ then: [{ delete: leaseKey('h2') }] });
  const says = async (key: string) => (await text(key))?.includes('10.0.0.9') === true;
  await waitFor(() => says(leaseKey('h1')), { what: 'it to be told', deadlineMs: 10_000, intervalMs: 5 });
  assert.equal(await text(memberKey('h1')), leaving);
  await store.transact({ then: [{ put: memberKey('h1'), value: '{"address":"10.0.0.1","state":"voter"}' }] });
  await waitFor(() => says(memberKey('h1')), { what: 'its member to be told', deadlineMs: 10_000, intervalMs: 5 });
});
