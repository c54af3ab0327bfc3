import assert from 'node:assert/strict';
import { test } from 'node:test';
import { leaseSubnet } from '@flynn/host-agent/cluster/subnets';
import { cellKeys } from '@flynn/scheduler/cell';
import { hostOf } from '@flynn/scheduler/testing';
import { createMemoryStore } from '@flynn/store/memory';
import { checkDoor, doorAddresses } from './doors.ts';

test('a host tagged router=no has no door, also while it is away; the one that looks after the platform is told that it needs one', async () => {
  await using store = createMemoryStore();
  const tag = async (hostId: string, tags: Record<string, string>) => {
    await store.transact({ then: [{ put: cellKeys.hostSettings(hostId), value: JSON.stringify({ tags }) }] });
  };
  const own = hostOf('k2', { attributes: { router: 'no' } });
  for (const host of [hostOf('k1'), own])
    await store.transact({ then: [{ put: cellKeys.host(host.id), value: JSON.stringify(host) }] });
  await tag('k1', { router: 'yes', disk: 'ssd' });
  await tag('k3', { router: 'no' });
  for (const [index, hostId] of ['k1', 'k2', 'k3', 'k4'].entries()) {
    await leaseSubnet(store, { hostId, address: `192.0.2.${index + 1}`, range: '100.100.0.0/16', now: 0 });
  }
  assert.deepEqual(await doorAddresses(store), ['192.0.2.1', '192.0.2.4']);
  await assert.rejects(checkDoor(store, 'k2'), { code: 'conflict' });
  await checkDoor(store, 'k1');
  await tag('k2', { router: '' });
  await checkDoor(store, 'k2');
  await tag('k1', { router: 'no' });
  await assert.rejects(checkDoor(store, 'k1'), {
    code: 'conflict',
    message: /k1 is tagged router=no.*flynn-host tags router= gives it back/,
  });
});
